; The tokens of an attempt are larger than all before, and ahead of the clock of the client by the lead at most, unless they follow a
; larger one.
; code: src/fencing.rs next: let first = last.saturating_add(1).max(wall_micros);
; code: src/fencing.rs next: let room = wall_micros.saturating_add(lead).saturating_sub(first);
; code: src/fencing.rs next: let reserve = reserve.min(u32::try_from(room).unwrap_or(u32::MAX));
; code: src/fencing.rs next: let claim = FencingToken(first.saturating_add(u64::from(reserve)));
; code: src/fencing.rs next: Some(next(last).0.tombstone())
; code: src/fencing.rs tombstone: self.0.saturating_add(1)
; range: clocks, leads and earlier tokens up to 2^62 microseconds; every reserve of 32 bits
; twin, the reserve heeds no lead: (smaller reserve (smaller room 4294967295)) => reserve
; twin, the room is counted from the clock: (at-least-0 (- (+ wall lead) first)) => (at-least-0 (- (+ wall lead) wall))
; twin, as large as the one before: (larger (+ last 1) wall) => (larger last wall)
; twin, the tombstone is not noted: (+ (claim last wall reserve lead) 1) => (claim last wall reserve lead)

(define-fun at-least-0 ((n Int)) Int (ite (< n 0) 0 n))
(define-fun larger ((a Int) (b Int)) Int (ite (< a b) b a))
(define-fun smaller ((a Int) (b Int)) Int (ite (< a b) a b))
(define-fun first ((last Int) (wall Int)) Int (larger (+ last 1) wall))
(define-fun reserved ((last Int) (wall Int) (reserve Int) (lead Int)) Int
  (let ((first (first last wall)))
    (let ((room (at-least-0 (- (+ wall lead) first))))
      (smaller reserve (smaller room 4294967295)))))
(define-fun claim ((last Int) (wall Int) (reserve Int) (lead Int)) Int
  (+ (first last wall) (reserved last wall reserve lead)))
; What the next proposal is above.
(define-fun noted ((last Int) (wall Int) (reserve Int) (lead Int)) Int
  (+ (claim last wall reserve lead) 1))

(declare-const last Int)
(declare-const wall Int)
(declare-const reserve Int)
(declare-const lead Int)
(assert (and (<= 0 last) (<= last 4611686018427387904) (<= 0 wall) (<= wall 4611686018427387904)))
(assert (and (<= 0 reserve) (<= reserve 4294967295) (<= 0 lead) (<= lead 4611686018427387904)))
(define-fun largest () Int (claim last wall reserve lead))
(define-fun lowest () Int (- largest (reserved last wall reserve lead)))
; With whatever clock and reserve the next attempt comes.
(declare-const later Int)
(assert (<= 0 later))
(define-fun next-lowest () Int (first (noted last wall reserve lead) later))

(assert (not (and
  (> lowest last)
  (<= lowest largest)
  (<= largest (larger (+ last 1) (+ wall lead)))
  (> next-lowest (+ largest 1)))))
(check-sat)
