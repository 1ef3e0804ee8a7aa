; While the minimum of `at_least` is not over by the clock of the holder, the key that rests is there on a node whose clock is
; faster by the drift factor.
; code: src/protocol/release.rs release: let ttl = cluster.options.ttl_for(left);
; code: src/guard/end.rs rest: let left = until.saturating_since(self.shared.cluster().clock.now());
; code: src/guard.rs held_at_least: let until = now.saturating_add(minimum);
; range: every minimum and factor from 0 to below 1; rates with node <= client / (1 - factor)
; twin, no drift: (is-ttl-for left factor sent) => (= sent left)
; twin, what is left is read after the command was sent: (<= looked set) => (<= set looked)
; twin, clocks that differ by a tenth more: (- 1 factor) => (- 1 (* 1.1 factor))

; What `ttl_for.smt2` proves, in milliseconds.
(define-fun is-ttl-for ((span Real) (factor Real) (sent Real)) Bool (<= span (- sent (+ (* sent factor) 2.0))))

(declare-const left Real)
(declare-const factor Real)
(declare-const sent Real)
(assert (and (< 0 left) (<= 0 factor) (< factor 1) (is-ttl-for left factor sent)))

(declare-const client Real)
(declare-const node Real)
(assert (and (> client 0) (> node 0) (<= (* node (- 1 factor)) client)))

; True times: the holder looks at its clock; the node executes the command; now.
(declare-const looked Real)
(declare-const set Real)
(declare-const now Real)
(assert (and (<= looked set) (<= set now) (<= looked now)))
(define-fun is-there () Bool (< (* node (- now set)) (- sent 2)))

(assert (not (=> (< (* client (- now looked)) left) is-there)))
(check-sat)
