; Clocks that are each wrong by half of the drift factor, one fast and one slow, are within what `clocks.smt2` asks for.
; code: src/quorum.rs drift: Duration::try_from_secs_f64(ttl.as_secs_f64() * factor)
; range: every factor from 0 to below 1
; twin, each wrong by the whole factor: (/ factor 2.0) => factor

(declare-const factor Real)
(declare-const client Real)
(declare-const node Real)
(assert (and (<= 0 factor) (< factor 1)))
(define-fun wrong () Real (/ factor 2.0))
(assert (and (<= (- 1 wrong) client) (<= client (+ 1 wrong)) (<= (- 1 wrong) node) (<= node (+ 1 wrong))))
(assert (not (<= (* node (- 1 factor)) client)))
(check-sat)
