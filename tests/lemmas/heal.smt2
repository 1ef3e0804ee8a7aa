; The key that a heal sets is there for as long as the lock is valid: until the end of the extension, or the old end if that is later.
; All is counted from a look at the clock just before the heal is sent. The extension began earlier, so it ends earlier too.
; code: src/protocol/heal.rs ttl: let left = deadline.saturating_since(cluster.clock.now());
; code: src/protocol/heal.rs covering: if left <= term.validity {
; code: src/protocol/heal.rs covering: let left = left.saturating_add(MILLISECOND);
; code: src/protocol/heal.rs covering: options.ttl_for(left).max(term.ttl)
; range: every term, factor and old end
; twin, the ttl of the extension in any case: (<= left validity) => (<= left (+ left validity))
; twin, what is left without the drift: (is-ttl-for (+ left 1) factor for_left) => (= for_left left)
; twin, the drift counts as validity: (<= left validity) => (<= left ttl)

; What `ttl_for.smt2` proves, and what a term is, in milliseconds.
(define-fun is-ttl-for ((span Real) (factor Real) (sent Real)) Bool (<= span (- sent (+ (* sent factor) 2.0))))
(define-fun valid-for ((ttl Real) (factor Real)) Real (- ttl (+ (* ttl factor) 2.0)))
(define-fun larger ((a Real) (b Real)) Real (ite (< a b) b a))
(define-fun ttl-of-heal ((left Real) (ttl Real) (validity Real) (for_left Real)) Real
  (ite (<= left validity) ttl (larger for_left ttl)))

(declare-const ttl Real)
(declare-const factor Real)
(declare-const left Real)
(declare-const for_left Real)
(define-fun validity () Real (valid-for ttl factor))
(assert (and (< 0 validity) (<= 0 left) (<= 0 factor) (< factor 1) (is-ttl-for (+ left 1) factor for_left)))
(assert (not (>= (valid-for (ttl-of-heal left ttl validity for_left) factor) (larger left validity))))
(check-sat)
