; A node that has forgotten abstains until every lock that it may have granted has ended, and every rest, by the clock of whoever
; counts on it. For locks that holds with any clocks that `clocks.smt2` allows. For a rest of `max_ttl` the node's clock
; may be faster by the factor, 1 % of the client's rate, and no more.
; code: src/fencing.rs new: let sum = max_ttl.saturating_add(drift).as_millis().saturating_add(1);
; code: src/cluster/options.rs minimum: if at_least > self.max_ttl {
; code: src/cluster/options.rs term: if ttl > self.max_ttl {
; range: every max_ttl and factor from 0 to below 1
; twin, a quarantine without the drift: (+ max_ttl (* factor max_ttl) 2) => max_ttl
; twin, for a rest, clocks as far apart as for a lock: (* client (+ 1 factor)) => (/ client (- 1 factor))
; twin, for a rest, each clock wrong by half of the factor: (<= node (* client (+ 1 factor))) => (and (<= node (+ 1 (/ factor 2))) (>= client (- 1 (/ factor 2))))
; twin, no limit for a minimum: (<= minimum max_ttl) => true

(declare-const max_ttl Real)
(declare-const factor Real)
(declare-const client Real)
(declare-const node Real)
(assert (and (< 0 max_ttl) (<= 0 factor) (< factor 1) (> client 0) (> node 0)))

; In milliseconds: at least so long by the clock of the node.
(declare-const quarantine Real)
(assert (>= quarantine (+ max_ttl (* factor max_ttl) 2)))
; True time from the loss to the end of the quarantine.
(declare-const span Real)
(assert (= (* node span) quarantine))

; A lock and a rest that began before the loss.
(declare-const ttl Real)
(declare-const minimum Real)
(assert (and (< 0 ttl) (<= ttl max_ttl) (< 0 minimum) (<= minimum max_ttl)))
(define-fun lock-has-ended () Bool
  (=> (<= (* node (- 1 factor)) client) (>= (* client span) (- ttl (+ (* ttl factor) 2)))))
(define-fun rest-has-ended () Bool
  (=> (<= node (* client (+ 1 factor))) (>= (* client span) minimum)))

(assert (not (and lock-has-ended rest-has-ended)))
(check-sat)
