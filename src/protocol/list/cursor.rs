//! Pure: how far the scan of one node has come.

/// A server with as many keys as fit into its memory has no more steps than this.
const MOST_STEPS: u64 = 1 << 24;

/// A cursor, and what shows that a server goes in a circle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    at: u64,
    steps: u64,
    /// The cursor after the last power of two of steps. A server that goes in a circle comes by it again (Brent's way to find
    /// a cycle), however long the circle is.
    landmark: u64,
}

/// What follows from the cursor in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Step(Cursor),
    Complete,
    /// The server's cursors never end.
    Endless,
}

impl Cursor {
    /// Where the next step begins.
    pub(super) fn at(self) -> u64 {
        self.at
    }

    /// What follows from the cursor that the server has returned.
    pub(super) fn next(self, at: u64) -> Next {
        let steps = self.steps.saturating_add(1);
        if at == 0 {
            return Next::Complete;
        }
        if at == self.landmark || steps >= MOST_STEPS {
            return Next::Endless;
        }
        let landmark = if steps.is_power_of_two() {
            at
        } else {
            self.landmark
        };
        Next::Step(Self {
            at,
            steps,
            landmark,
        })
    }

    /// The part of the keys that the scan is past, for people.
    ///
    /// Redis counts the buckets of its table with the bits of their numbers reversed, so that a table which grows meanwhile
    /// does no harm. So the reversed cursor grows from zero to its maximum.
    pub(super) fn share(self) -> f64 {
        let high = u32::try_from(self.at.reverse_bits() >> 32).unwrap_or(u32::MAX);
        f64::from(high) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of steps until the scan is over, for a server that answers so to each cursor.
    fn follow(server: impl Fn(u64) -> u64) -> (Next, u64) {
        let mut cursor = Cursor::default();
        for steps in 1.. {
            match cursor.next(server(cursor.at())) {
                Next::Step(next) => cursor = next,
                end @ (Next::Complete | Next::Endless) => return (end, steps),
            }
        }
        unreachable!()
    }

    /// As Redis goes from one bucket of a table to the next.
    fn next_bucket(cursor: u64, mask: u64) -> u64 {
        (cursor | !mask)
            .reverse_bits()
            .wrapping_add(1)
            .reverse_bits()
    }

    #[test]
    fn the_scan_of_a_table_of_any_size_ends() {
        for bits in 0..12 {
            let mask = (1_u64 << bits) - 1;
            let scan = follow(|cursor| next_bucket(cursor, mask));
            assert_eq!(scan, (Next::Complete, mask + 1));
        }
    }

    #[test]
    fn a_circle_is_found_wherever_it_begins_and_however_long_it_is() {
        for before in 0..20_u64 {
            for length in 1..20_u64 {
                // 1, 2, 3 … and from the end back to the beginning of the circle.
                let server = |cursor: u64| {
                    if cursor == before + length {
                        before + 1
                    } else {
                        cursor + 1
                    }
                };
                let (end, steps) = follow(server);
                assert_eq!(end, Next::Endless);
                assert!(
                    steps <= 4 * (before + length) + 2,
                    "{before} {length}: {steps}"
                );
            }
        }
    }

    #[test]
    fn cursors_that_go_on_for_ever_end_as_well() {
        let (end, steps) = follow(|cursor| cursor + 1);
        assert_eq!((end, steps), (Next::Endless, MOST_STEPS));
    }

    #[test]
    fn the_share_goes_from_nothing_to_all_and_never_back() {
        let mut cursor = Cursor::default();
        assert!(cursor.share() <= 0.0);
        let mut before = 0.0;
        let (mut mask, mut steps) = (0xff, 0);
        while let Next::Step(next) = cursor.next(next_bucket(cursor.at(), mask)) {
            assert!(next.share() > before, "{next:?}");
            (before, cursor, steps) = (next.share(), next, steps + 1);
            // The table grows, and shrinks later.
            mask = match steps {
                40 => 0x3ff,
                400 => 0x3f,
                _ => mask,
            };
        }
        assert!(before > 0.9 && before <= 1.0, "{before}");
    }
}
