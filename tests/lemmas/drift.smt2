; The drift is never less than the exact share of the ttl and 2 ms, and hardly more (101 ns, and a 10^-15th of the share), whatever
; floating-point numbers do.
; code: src/quorum.rs drift: Duration::try_from_secs_f64(ttl.as_secs_f64() * factor)
; code: src/quorum.rs drift: .saturating_add(ROUNDING)
; code: src/quorum.rs drift: .saturating_add(DRIFT_FLOOR)
; code: src/quorum.rs *: const ROUNDING: Duration = Duration::from_nanos(100);
; code: src/quorum.rs *: const DRIFT_FLOOR: Duration = Duration::from_millis(2);
; range: ttls of up to four years, factors from 0 to below 1
; twin, nothing for rounding: ROUNDING () Real 100.0 => ROUNDING () Real 0.0
; twin, a thousand years: MOST_SECONDS () Real 126144000.0 => MOST_SECONDS () Real 31536000000.0
; twin, no constant part: FLOOR () Real 2000000.0 => FLOOR () Real 1000000.0

; Each operation on floating-point numbers has a relative error of 2^-53 at most, and what is too small for that an absolute one.
(define-fun UNIT () Real (/ 1.0 9007199254740992.0))
(define-fun ROUNDING () Real 100.0)
(define-fun FLOOR () Real 2000000.0)
(define-fun MOST_SECONDS () Real 126144000.0)
(define-fun is-small ((error Real)) Bool (and (<= (- UNIT) error) (<= error UNIT)))

; What the code may come to, in nanoseconds.
(define-fun is-drift ((ttl Real) (factor Real) (drift Real)) Bool
  (and (<= (+ (* ttl factor) 2000000.0) drift) (<= drift (+ (* ttl factor (+ 1 (* 4 UNIT))) 2000101.0))))

(declare-const seconds Real)
(declare-const nanos Real)
(declare-const factor Real)
(assert (and (<= 0 seconds) (<= seconds MOST_SECONDS) (<= 0 nanos) (<= nanos 999999999.0)))
(assert (and (<= 0 factor) (< factor 1)))

; as_secs_f64: a division and a sum. Then the product. Then whole nanoseconds, by rounding.
(declare-const in_division Real)
(declare-const in_sum Real)
(declare-const in_product Real)
(declare-const underflow Real)
(declare-const to_whole Real)
(assert (and (is-small in_division) (is-small in_sum) (is-small in_product) (is-small underflow)))
(assert (and (<= (- 0.5) to_whole) (<= to_whole 0.5)))
(define-fun span () Real (* (+ seconds (* (/ nanos 1000000000.0) (+ 1 in_division))) (+ 1 in_sum)))
(define-fun product () Real (+ (* (* span factor) (+ 1 in_product)) underflow))
(define-fun code () Real (+ (* product 1000000000.0) to_whole ROUNDING FLOOR))

(assert (not (is-drift (+ (* seconds 1000000000.0) nanos) factor code)))
(check-sat)
