; The validity is never longer than the time to live that is sent, less its drift: fractions of a millisecond are cut off before
; anything is computed from the ttl.
; code: src/cluster/options.rs term: Duration::from_millis(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
; code: src/cluster/options.rs term: let drift = self.drift(whole);
; code: src/cluster/options.rs term: let validity = quorum::validity(whole, Duration::ZERO, drift);
; code: src/quorum.rs validity: ttl.saturating_sub(drift).saturating_sub(elapsed)
; code: src/wire/pack.rs whole_millis: u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
; range: ttls up to 365 days in nanoseconds, any drift and any elapsed time
; twin, the validity of what was asked for: (validity (whole ttl) 0 drift) => (validity ttl 0 drift)
; twin, rounded up: (* 1000000 (div ttl 1000000)) => (* 1000000 (div (+ ttl 999999) 1000000))
; twin, no drift: (at-least-0 (- ttl drift)) => (at-least-0 ttl)

(define-fun at-least-0 ((span Int)) Int (ite (< span 0) 0 span))
; The ttl in whole milliseconds, and what is sent as PX.
(define-fun whole ((ttl Int)) Int (* 1000000 (div ttl 1000000)))
(define-fun px ((ttl Int)) Int (div ttl 1000000))
(define-fun validity ((ttl Int) (elapsed Int) (drift Int)) Int (at-least-0 (- (at-least-0 (- ttl drift)) elapsed)))
(define-fun term-validity ((ttl Int) (drift Int)) Int (validity (whole ttl) 0 drift))

(declare-const ttl Int)
(declare-const drift Int)
(declare-const elapsed Int)
(assert (and (<= 0 ttl) (<= ttl 31536000000000000) (<= 0 drift) (<= 0 elapsed)))

; As long as it is valid, what has passed and the drift are less than what was sent, and that is no more than was asked for.
(define-fun is-valid () Bool (> (at-least-0 (- (term-validity ttl drift) elapsed)) 0))
(define-fun sent () Int (* 1000000 (px (whole ttl))))
(assert (not (and (=> is-valid (< (+ elapsed drift) sent)) (<= sent ttl))))
(check-sat)
