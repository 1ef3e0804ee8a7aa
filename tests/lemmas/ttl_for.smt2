; The ttl for a validity, cut to whole milliseconds, is valid for no less: for the rest of `at_least`, for `max_hold` and for a heal.
; code: src/quorum.rs ttl_for: .saturating_add(DRIFT_FLOOR)
; code: src/quorum.rs ttl_for: .saturating_add(ROUNDING)
; code: src/quorum.rs ttl_for: .saturating_add(Duration::from_millis(1));
; code: src/quorum.rs ttl_for: Duration::try_from_secs_f64(with_rest.as_secs_f64() / (1.0 - factor));
; code: src/cluster.rs term_until: self.options.ttl_for(limit.saturating_since(now))
; code: src/wire/pack.rs whole_millis: u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
; range: validities and ttls of up to four years, factors from 0 to below 1
; twin, no drift factor: (/ with-rest (- 1 factor)) => with-rest
; twin, the constant part of the drift is left out: (+ span 2000000 100 1000000) => (+ span 100 1000000)
; twin, no millisecond for what is cut off: (+ span 2000000 100 1000000) => (+ span 2000000 100)

(define-fun UNIT () Real (/ 1.0 9007199254740992.0))
(define-fun YEARS () Real 126144000000000000.0)
; What is promised of the time to live that is sent, in nanoseconds, with the largest drift that `drift.smt2` allows.
(define-fun is-ttl-for ((span Real) (factor Real) (sent Real)) Bool
  (<= span (- sent (+ (* sent factor (+ 1 (* 4 UNIT))) 2000101.0))))

(declare-const span Real)
(declare-const factor Real)
(assert (and (<= 0 span) (<= span YEARS) (<= 0 factor) (< factor 1)))
(define-fun with-rest () Real (+ span 2000000 100 1000000))

; Of five operations on floating-point numbers, and the rounding to whole nanoseconds.
(declare-const error Real)
(declare-const to_whole Real)
(assert (and (<= (* (- 6) UNIT) error) (<= error (* 6 UNIT)) (<= (- 0.5) to_whole) (<= to_whole 0.5)))
(define-fun code () Real (+ (* (/ with-rest (- 1 factor)) (+ 1 error)) to_whole 100))
(assert (<= code YEARS))

; What is sent has whole milliseconds.
(declare-const sent Real)
(assert (and (<= sent code) (< (- code 1000000) sent) (<= 0 sent)))

(assert (not (is-ttl-for span factor sent)))
(check-sat)
