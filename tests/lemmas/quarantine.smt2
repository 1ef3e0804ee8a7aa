; After its quarantine a node grants no token that it, or the server that it replaced, may have granted before: Q >= S + L.
; code: src/fencing.rs new: let sum = max_ttl.saturating_add(drift).as_millis().saturating_add(1);
; code: src/fencing.rs new: skew: max_ttl,
; code: src/fencing.rs new: lead: drift,
; code: src/fencing.rs next: let lead = u64::try_from(lead.as_micros()).unwrap_or(u64::MAX);
; code: src/wire/scripts/fenced_gate.lua gate: open = string.format('%.0f', now + quarantine_ms * 1000)
; code: src/wire/scripts/fenced_gate.lua gate: if now < open then return {'CLOSED', open - now, why} end
; code: src/wire/scripts/fenced_floor.lua stale: if token > now + ARGV[4] * 1000 then return {'SKEW', now} end
; code: src/wire/scripts/fenced_floor.lua stale: if floor < open then floor = open end
; code: src/wire/scripts/fenced_floor.lua stale: if token - ARGV[8] <= floor then return {'STALE', floor} end
; range: max_ttl up to 365 days in nanoseconds, any drift up to that, any clocks
; twin, the quarantine is the longest ttl alone: (div (+ max_ttl drift) 1000000) => (div max_ttl 1000000)
; twin, rounded down: (+ (div (+ max_ttl drift) 1000000) 1) => (div (+ max_ttl drift) 1000000)
; twin, clocks may differ by a millisecond more: (* 1000 wall) (+ (* 1000 new_now) max_ttl) => (* 1000 wall) (+ (* 1000 new_now) max_ttl 1000000)
; twin, the same clock runs backwards: (<= granted_at same_now) => true
; twin, what equals the end of the quarantine is granted: (> lowest open) => (>= lowest open)
; twin, the reserve is not looked at: (> lowest open) => (> (+ lowest reserve) open)

; In milliseconds, from nanoseconds.
(define-fun quarantine ((max_ttl Int) (drift Int)) Int (+ (div (+ max_ttl drift) 1000000) 1))
; What the scripts compute, in microseconds.
(define-fun open-at ((now Int) (quarantine Int)) Int (+ now (* quarantine 1000)))
(define-fun is-too-far-ahead ((token Int) (now Int) (quarantine Int)) Bool (> token (+ now (* quarantine 1000))))

(declare-const max_ttl Int)
(declare-const drift Int)
(assert (and (<= 0 max_ttl) (<= max_ttl 31536000000000000) (<= 0 drift) (<= drift max_ttl)))
(define-fun q () Int (quarantine max_ttl drift))

; The node loses its data: it is the same machine, whose clock does not go back.
(declare-const of_same Int)
(declare-const granted_at Int)
(declare-const same_now Int)
(assert (and (not (is-too-far-ahead of_same granted_at q)) (<= granted_at same_now)))

; Or another one takes its place. The client's clock was ahead of the new server's by `skew` at most, and its token ahead of that by
; the lead (`lead.smt2`).
(declare-const of_other Int)
(declare-const wall Int)
(declare-const new_now Int)
(assert (<= (* 1000 wall) (+ (* 1000 new_now) max_ttl)))
(assert (<= of_other (+ wall (div drift 1000))))

; What is granted later: each of its tokens is above the end of the quarantine.
(declare-const open Int)
(declare-const before Int)
(declare-const lowest Int)
(declare-const reserve Int)
(assert (or (and (= before of_same) (= open (open-at same_now q))) (and (= before of_other) (= open (open-at new_now q)))))
(assert (and (<= 0 reserve) (> lowest open)))
(assert (not (> lowest before)))
(check-sat)
