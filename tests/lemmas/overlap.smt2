; An extension, with nodes that were healed or not, never makes two holders: its votes come before the old end. The lock rests on a
; majority M1 until its old end, and on M2 from then on; another one has M3. So there is a node in M1 and M3, and one in M2 and M3.
; code: src/lease/state/extended.rs extended: if now >= self.deadline() {
; code: src/lease/state/extended.rs extended: let deadline = started.saturating_add(term.validity);
; code: src/lease/state/extended.rs extended: .fetch_max(deadline.as_nanos(), Ordering::AcqRel);
; code: src/protocol/acquire.rs won: let times = (started, started.saturating_add(self.asked.term.validity));
; range: all times
; twin, votes after the old end count: (< voted old_end) => (= voted voted)
; twin, the other is valid for longer than its key: (<= its_end (end its2)) => true
; twin, our key on a node of M2 ends before the new end: (<= extension_end (end ours2)) => true
; twin, a node has both keys at once: (or (<= (end ours2) (start its2)) (<= (end its2) (start ours2))) => true

; Whether a vote that is there at this moment counts, and what the end of the lock is then.
(define-fun counts ((voted Real) (old_end Real)) Bool (< voted old_end))
(define-fun new-end ((old_end Real) (extension_end Real)) Real (ite (< old_end extension_end) extension_end old_end))

(declare-datatypes () ((Key (key (start Real) (end Real)))))
; On a node of M1 and M3: our key and the other's. On a node of M2 and M3 likewise.
(declare-const ours1 Key)
(declare-const its1 Key)
(declare-const ours2 Key)
(declare-const its2 Key)
(assert (and (< (start ours1) (end ours1)) (< (start its1) (end its1)) (< (start ours2) (end ours2)) (< (start its2) (end its2))))
; One key at a time, as `SET NX` sees to it.
(assert (or (<= (end ours1) (start its1)) (<= (end its1) (start ours1))))
(assert (or (<= (end ours2) (start its2)) (<= (end its2) (start ours2))))

; Ours: returned, valid to the old end on M1, extended by votes, valid to the new end on M2. What `clocks.smt2` proves: a key is
; there as long as it is counted on.
(declare-const returned Real)
(declare-const old_end Real)
(declare-const voted Real)
(declare-const extension_end Real)
(assert (and (<= (start ours1) returned) (<= old_end (end ours1)) (< returned old_end)))
(assert (and (<= (start ours2) voted) (<= returned voted) (counts voted old_end) (<= extension_end (end ours2))))

; The other's: returned after all of its keys were set, and valid for no longer than each of them is there.
(declare-const its_return Real)
(declare-const its_end Real)
(assert (and (<= (start its1) its_return) (<= (start its2) its_return) (< its_return its_end)))
(assert (and (<= its_end (end its1)) (<= its_end (end its2))))

; Both valid at one moment.
(declare-const now Real)
(assert (and (<= returned now) (< now (new-end old_end extension_end)) (<= its_return now) (< now its_end)))
(check-sat)
