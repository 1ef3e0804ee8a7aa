; As long as a lock is valid by the clock of its holder, the key is there by the clock of the node. Each clock has a rate of its
; own; the node's is faster by the drift factor at most. The 2 ms are for a server that ends a key at the beginning of its
; last millisecond (Redis: at its end), and that reads a time for the command which is up to a millisecond old.
; code: src/quorum.rs *: const DRIFT_FLOOR: Duration = Duration::from_millis(2);
; code: src/quorum.rs validity: ttl.saturating_sub(drift).saturating_sub(elapsed)
; code: src/protocol/acquire.rs attempt: let started = cluster.clock.now(); let ballots = round(cluster, &attempt, order);
; code: src/protocol/acquire.rs won: let times = (started, started.saturating_add(self.asked.term.validity));
; code: src/protocol/adopt.rs adopt: let deadline = started.saturating_add(validity);
; range: every ttl, elapsed time and factor from 0 to below 1; rates with node <= client / (1 - factor)
; twin, no drift factor: (+ (* factor ttl) FLOOR) => FLOOR
; twin, one of the two milliseconds: FLOOR () Real 2.0 => FLOOR () Real 1.0
; twin, no constant part: FLOOR () Real 2.0 => FLOOR () Real 0.0
; twin, clocks that differ by a tenth more: (- 1 factor) => (- 1 (* 1.1 factor))
; twin, the client's clock is read when the node has answered: (<= began set) => (<= set began)

(define-fun FLOOR () Real 2.0)
(define-fun drift ((ttl Real) (factor Real)) Real (+ (* factor ttl) FLOOR))
; Spans are in milliseconds: those of the client by its clock, those of the node by the node's.
(define-fun is-valid ((ttl Real) (factor Real) (elapsed Real)) Bool (< elapsed (- ttl (drift ttl factor))))

(declare-const ttl Real)
(declare-const factor Real)
(assert (and (<= 1 ttl) (<= 0 factor) (< factor 1)))

; How fast the clocks are, as means of the time in which they are compared.
(declare-const client Real)
(declare-const node Real)
(assert (and (> client 0) (> node 0) (<= (* node (- 1 factor)) client)))

; True times: the client reads its clock; the node executes the command; now.
(declare-const began Real)
(declare-const set Real)
(declare-const now Real)
(assert (and (<= began set) (<= set now) (<= began now)))

; By how much a node may end a key before its time to live is over, by its own clock.
(declare-const part_of_a_millisecond Real)
(declare-const old Real)
(assert (and (<= 0 part_of_a_millisecond) (< part_of_a_millisecond 1) (<= 0 old) (<= old 1)))
(define-fun is-there () Bool (< (* node (- now set)) (- ttl part_of_a_millisecond old)))

(assert (not (=> (is-valid ttl factor (* client (- now began))) is-there)))
(check-sat)
