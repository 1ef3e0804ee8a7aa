; Any two majorities share a node, a lock is never both won and ruled out, and no smaller number would do.
; code: src/quorum.rs quorum: (nodes / 2).saturating_add(1)
; code: src/quorum.rs is_reached: votes >= quorum(nodes)
; code: src/quorum.rs is_ruled_out: nodes.saturating_sub(against) < quorum(nodes)
; code: src/verdict.rs is_won: quorum::is_reached(self.nodes, self.granted) && self.for_a_writer == 0
; code: src/verdict.rs is_lost: quorum::is_ruled_out(self.nodes, self.against) || self.for_a_writer > 0
; range: every number of nodes from 1 to 2^63
; twin, half of the nodes: (+ (div nodes 2) 1) => (div (+ nodes 1) 2)
; twin, one more than a majority is asked for: (+ (div nodes 2) 1) => (+ (div nodes 2) 2)
; twin, ruled out too early: (< (- nodes against) (quorum nodes)) => (<= (- nodes against) (quorum nodes))

(define-fun quorum ((nodes Int)) Int (+ (div nodes 2) 1))
(define-fun is-reached ((nodes Int) (votes Int)) Bool (>= votes (quorum nodes)))
(define-fun is-ruled-out ((nodes Int) (against Int)) Bool (< (- nodes against) (quorum nodes)))

(declare-const nodes Int)
(declare-const one Int)
(declare-const other Int)
(declare-const granted Int)
(declare-const against Int)
(assert (and (<= 1 nodes) (<= nodes 9223372036854775808)))
(assert (and (<= 0 one) (<= one nodes) (<= 0 other) (<= other nodes)))
(assert (and (<= 0 granted) (<= 0 against) (<= (+ granted against) nodes)))

; Sets of more nodes together than there are share one.
(define-fun share-a-node () Bool (=> (and (is-reached nodes one) (is-reached nodes other)) (> (+ one other) nodes)))
(define-fun never-both () Bool (not (and (is-reached nodes granted) (is-ruled-out nodes against))))
(define-fun open-until-decided () Bool (=> (not (is-ruled-out nodes against)) (is-reached nodes (- nodes against))))
(define-fun no-smaller-one () Bool (<= (* 2 (- (quorum nodes) 1)) nodes))
(assert (not (and share-a-node never-both open-until-decided no-smaller-one)))
(check-sat)
