; What `status` says remains is no less than what the holder has, to a millisecond, if the node that is asked has the key.
; code: src/verdict.rs of_views: remaining: left.saturating_sub(drift(left)),
; code: src/verdict.rs adopt: let validity = quorum::validity(left, Duration::ZERO, drift(left));
; range: every ttl, elapsed time and factor from 0 to below 1; rates with node <= client / (1 - factor)
; twin, the drift of the whole ttl is taken off: (drift left factor) => (drift ttl factor)
; twin, clocks that differ by a tenth more: (- 1 factor) => (- 1 (* 1.1 factor))
; twin, to a part of a millisecond: (+ told 1) => (+ told 0.5)

(define-fun drift ((ttl Real) (factor Real)) Real (+ (* factor ttl) 2.0))
(define-fun remaining ((ttl Real) (factor Real) (elapsed Real)) Real (- ttl (drift ttl factor) elapsed))
(define-fun what-is-told ((ttl Real) (left Real) (factor Real)) Real (- left (drift left factor)))

(declare-const ttl Real)
(declare-const factor Real)
(declare-const client Real)
(declare-const node Real)
(assert (and (<= 1 ttl) (<= 0 factor) (< factor 1)))
(assert (and (> client 0) (> node 0) (<= (* node (- 1 factor)) client)))

; True times since the client read its clock: the key was set; the node is asked.
(declare-const set Real)
(declare-const asked Real)
(assert (and (<= 0 set) (<= set asked)))

; PTTL has whole milliseconds: a part of one is cut off.
(declare-const left Real)
(define-fun exact () Real (- ttl (* node (- asked set))))
(assert (and (< (- exact 1) left) (<= left exact) (<= 0 left)))

(define-fun told () Real (what-is-told ttl left factor))
(assert (not (>= (+ told 1) (remaining ttl factor (* client asked)))))
(check-sat)
