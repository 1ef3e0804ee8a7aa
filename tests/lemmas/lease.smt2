; A lease that carries a minimum makes the rest no shorter, and one that carries an end makes the validity no longer, whatever is
; rounded in its text.
; code: src/lease.rs of: expires_ms: whole_ms(expires),
; code: src/lease.rs of: rests_until_ms: rests_until.map(|until| whole_ms(until).saturating_add(1)),
; code: src/lease.rs rest_left: let until = self.rests_until_ms?.saturating_mul(1000);
; code: src/lease.rs has_expired: self.expires_ms <= wall_micros / 1000
; range: every moment of the wall clock in nanoseconds, up to 2^63
; twin, the end of the minimum is rounded down: (+ (div until 1000000) 1) => (div until 1000000)
; twin, the end of the validity is rounded up: (define-fun expires-ms ((end Int)) Int (div end 1000000)) => (define-fun expires-ms ((end Int)) Int (+ (div end 1000000) 1))
; twin, an end in this millisecond is still to come: (<= (expires-ms end) (div wall 1000)) => (< (expires-ms end) (div wall 1000))

(define-fun at-least-0 ((n Int)) Int (ite (< n 0) 0 n))
(define-fun rests-until-ms ((until Int)) Int (+ (div until 1000000) 1))
; In microseconds, by the wall clock in microseconds.
(define-fun rest-left ((until Int) (wall Int)) Int (at-least-0 (- (* 1000 (rests-until-ms until)) wall)))
(define-fun expires-ms ((end Int)) Int (div end 1000000))
(define-fun has-expired ((end Int) (wall Int)) Bool (<= (expires-ms end) (div wall 1000)))

(declare-const moment Int)
(declare-const wall Int)
(assert (and (<= 0 moment) (<= moment 9223372036854775808) (<= 0 wall)))
(assert (not (and
  (>= (* 1000 (+ wall (rest-left moment wall))) moment)
  (=> (not (has-expired moment wall)) (< (* 1000 wall) moment)))))
(check-sat)
