; The floor that stands in for a counter which ended because it was idle is no smaller than any token that was granted. A server ends
; the counter when its last millisecond is over, by its own clock.
; code: src/wire/scripts/fenced_floor.lua floor_of: local span = ARGV[4] * 1000
; code: src/wire/scripts/fenced_floor.lua floor_of: if not counter then return now - ARGV[5] * 1000 + span end
; code: src/wire/scripts/fenced_floor.lua stale: if token > now + ARGV[4] * 1000 then return {'SKEW', now} end
; code: src/wire/scripts/fenced_release.lua *: local latest = time[1] * 1000000 + time[2] + ARGV[3] * 1000
; code: src/wire/scripts/fenced_release.lua *: local floor = latest - ARGV[4] * 1000
; code: src/fencing.rs *: pub(crate) const FENCE_IDLE: Duration = Duration::from_secs(24 * 60 * 60);
; code: src/manager/builder/build.rs *: const LONGEST_FENCED_TTL: Duration = Duration::from_secs(11 * 60 * 60);
; range: quarantines up to 24 h, every clock, token and reserve
; twin, the floor leaves the quarantine out: (+ (- now (* idle 1000)) (* quarantine 1000)) => (- now (* idle 1000))
; twin, the floor is a millisecond lower: (+ (- now (* idle 1000)) (* quarantine 1000)) => (+ (- now (* idle 1000)) (* quarantine 1000) (- 1000))
; twin, the server ends the counter at the beginning of its last millisecond: (> (div now 1000) (+ (div touched 1000) IDLE)) => (>= (div now 1000) (+ (div touched 1000) IDLE))
; twin, counters are kept for less than the floor takes for granted: (+ (div touched 1000) IDLE) => (+ (div touched 1000) IDLE (- 1))

(define-fun IDLE () Int 86400000)
; In microseconds, from milliseconds.
(define-fun floor-of-none ((now Int) (quarantine Int) (idle Int)) Int (+ (- now (* idle 1000)) (* quarantine 1000)))
(define-fun is-too-far-ahead ((token Int) (now Int) (quarantine Int)) Bool (> token (+ now (* quarantine 1000))))

(declare-const quarantine Int)
(assert (and (<= 1 quarantine) (<= quarantine 86400000)))

; The last grant. Each later extension and release makes the counter last longer.
(declare-const granted Int)
(declare-const touched Int)
(assert (and (<= 0 touched) (not (is-too-far-ahead granted touched quarantine))))

(declare-const now Int)
(assert (> (div now 1000) (+ (div touched 1000) IDLE)))

(declare-const lowest Int)
(assert (> lowest (floor-of-none now quarantine IDLE)))
; And a tombstone is the token and one, which is above the last token of its attempt.
(assert (not (and (> lowest granted) (>= (floor-of-none now quarantine IDLE) (+ granted 1)))))
(check-sat)
