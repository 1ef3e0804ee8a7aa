; Whatever number a script computes from clocks, tokens and spans is a whole one that a floating-point number has exactly, up to the
; year 2250. Lua has no other numbers.
; code: src/fencing.rs *: pub(crate) const LARGEST: u64 = 9_999_999_999_999_999;
; code: src/wire/scripts/fenced_gate.lua gate: local now, ours = time[1] * 1000000 + time[2], run .. '|' .. config .. '|'
; code: src/wire/scripts/fenced_floor.lua floor_of: if #counter > 16 or not string.find(counter, '^%d+$') then return nil, {'COUNTER'} end
; code: src/wire/scripts/readers.lua keep: if ends >= 1e15 then return {err = "ERR invalid expire time in 'pexpireat' command"} end
; range: clocks up to 2250-01-01, quarantines up to 24 h, ttls and counters' idle time up to 365 days
; twin, in the year 2286: 8835984000000000 => 9999999999999999
; twin, a token is compared with no clock: (<= token (+ now (* 1000 quarantine))) => (<= token 9999999999999999)

; Above it, not all whole numbers are floating-point numbers.
(define-fun EXACT () Int 9007199254740992)
(define-fun is-exact ((n Int)) Bool (and (<= (- EXACT) n) (<= n EXACT)))

(declare-const now Int)
(declare-const quarantine Int)
(declare-const idle Int)
(declare-const token Int)
(declare-const reserve Int)
(declare-const ttl Int)
(assert (and (<= 0 now) (<= now 8835984000000000)))
(assert (and (<= 0 quarantine) (<= quarantine 86400000) (<= 0 idle) (<= idle 31536000000)))
(assert (and (<= 0 ttl) (<= ttl 31536000000) (<= 0 reserve) (<= reserve 4294967295)))
; A larger one is refused. What is there of it is the token and one (a tombstone), and readers may have added one each.
(assert (and (<= 0 token) (<= token (+ now (* 1000 quarantine)))))
(assert (not (and
  (is-exact (+ now (* 1000 quarantine) 1))
  (is-exact (+ (- now (* 1000 idle)) (* 1000 quarantine)))
  (is-exact (- token reserve))
  (is-exact (+ token 1 86400000))
  (is-exact (+ (div now 1000) ttl)))))
(check-sat)
