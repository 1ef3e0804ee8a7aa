; A reader's entry counts for its whole ttl and for less than a millisecond more, the key is there as long as any entry counts, and
; what is removed has ended.
; code: src/wire/scripts/refusal.lua now_ms: return time[1] * 1000 + math.floor(time[2] / 1000)
; code: src/wire/scripts/read.lua *: local ends = now + ARGV[2]
; code: src/wire/scripts/reread.lua *: local ends = now + ARGV[2]
; code: src/wire/scripts/reread.lua *: if its < now then return {-2} end
; code: src/wire/scripts/unread.lua *: if its < now then return {-2} end
; code: src/wire/scripts/refusal.lua refusal: redis.pcall('ZCOUNT', lock, whole(now_ms()), '+inf')
; code: src/wire/scripts/read.lua *: redis.call('ZREMRANGEBYSCORE', lock, '-inf', '(' .. whole(now))
; code: src/wire/scripts/readers.lua keep: if ends <= last then return end
; code: src/wire/scripts/readers.lua keep: local kept = redis.pcall('PEXPIREAT', lock, text)
; range: every clock and every ttl from 1 ms
; twin, an entry ends with the beginning of its last millisecond: (>= ends (now-ms now)) => (> ends (now-ms now))
; twin, those of this millisecond are removed: (< ends (now-ms now)) => (<= ends (now-ms now))
; twin, the end is rounded to the next millisecond: (+ (now-ms now) ttl) => (+ (now-ms now) ttl 1)
; twin, the key ends with the newest entry: (= key_end (larger last ends)) => (= key_end ends)
; twin, the server ends the key at the beginning of its last millisecond: (> (now-ms now) key_end) => (>= (now-ms now) key_end)

(define-fun larger ((a Int) (b Int)) Int (ite (< a b) b a))
; The clock of the node is in microseconds, scores are in milliseconds.
(define-fun now-ms ((now Int)) Int (div now 1000))
(define-fun ends-of ((now Int) (ttl Int)) Int (+ (now-ms now) ttl))
(define-fun counts ((ends Int) (now Int)) Bool (>= ends (now-ms now)))
(define-fun is-removed ((ends Int) (now Int)) Bool (< ends (now-ms now)))
(define-fun key-has-ended ((key_end Int) (now Int)) Bool (> (now-ms now) key_end))

(declare-const set Int)
(declare-const ttl Int)
(declare-const now Int)
(assert (and (<= 0 set) (<= set now) (<= 1 ttl)))
(define-fun ends () Int (ends-of set ttl))

; Another entry that was there, and that counts now; the key's end follows the latest.
(declare-const last Int)
(declare-const key_end Int)
(assert (= key_end (larger last ends)))

(assert (not (and
  (=> (< now (+ set (* 1000 ttl))) (counts ends now))
  (=> (counts ends now) (< now (+ set (* 1000 ttl) 1000)))
  (=> (is-removed ends now) (not (counts ends now)))
  (=> (or (counts ends now) (counts last now)) (not (key-has-ended key_end now))))))
(check-sat)
