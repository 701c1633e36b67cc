//! Which node of a cluster keeps which slot.

use std::{fmt, sync::Arc};

use redis::Value;

use crate::lease::redis::{node::Node, stream::text_of, url::Address};

/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key: of the part in its first braces, when there is something in them.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = key.get(open + 1..)?;
        let close = rest.iter().position(|byte| *byte == b'}')?;
        rest.get(..close).filter(|tag| !tag.is_empty())
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM, as in the specification of the cluster.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let index = usize::from((crc >> 8) ^ u16::from(*byte));
        (crc << 8) ^ TABLE.get(index).copied().unwrap_or(0)
    })
}

const TABLE: [u16; 256] = table();

#[expect(clippy::indexing_slicing, reason = "the index is below 256, and this runs when compiled")]
const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let mut crc = (at as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}

/// The slots and their nodes, as of one moment.
#[derive(Clone)]
pub(super) struct Map {
    /// By slot, the place of its node in `nodes`.
    places: Vec<u16>,
    nodes: Vec<(Address, Arc<Node>)>,
    /// Other addresses of the cluster, to ask when no primary answers.
    pub(super) replicas: Vec<Address>,
}

/// No node keeps this slot.
const NOBODY: u16 = u16::MAX;

/// One range of slots, as a node describes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) primary: Address,
    pub(super) replicas: Vec<Address>,
}

impl Map {
    pub(super) fn empty() -> Self {
        Self { places: vec![NOBODY; usize::from(SLOTS)], nodes: Vec::new(), replicas: Vec::new() }
    }

    /// Built from ranges; `node` gives the node at an address.
    pub(super) fn of(ranges: &[Range], node: impl Fn(&Address) -> Arc<Node>) -> Self {
        let mut map = Self::empty();
        for range in ranges {
            let place = map.place(&range.primary, &node);
            let (first, last) = (usize::from(range.first), usize::from(range.last));
            if let Some(places) = map.places.get_mut(first..=last) {
                places.fill(place);
            }
            for replica in &range.replicas {
                if !map.replicas.contains(replica) {
                    map.replicas.push(replica.clone());
                }
            }
        }
        map
    }

    /// The same, with one slot kept elsewhere.
    pub(super) fn with(
        &self,
        slot: u16,
        address: &Address,
        node: impl Fn(&Address) -> Arc<Node>,
    ) -> Self {
        let mut map = self.clone();
        let place = map.place(address, &node);
        if let Some(at) = map.places.get_mut(usize::from(slot)) {
            *at = place;
        }
        map
    }

    fn place(&mut self, address: &Address, node: &impl Fn(&Address) -> Arc<Node>) -> u16 {
        let known = self.nodes.iter().position(|(known, _)| known == address);
        let place = known.unwrap_or_else(|| {
            self.nodes.push((address.clone(), node(address)));
            self.nodes.len() - 1
        });
        u16::try_from(place).unwrap_or(NOBODY)
    }

    pub(super) fn keeper(&self, slot: u16) -> Option<&Arc<Node>> {
        let place = self.places.get(usize::from(slot))?;
        self.nodes.get(usize::from(*place)).map(|(_, node)| node)
    }

    pub(super) fn at(&self, address: &Address) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|(known, _)| known == address).map(|(_, node)| node)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &(Address, Arc<Node>)> {
        self.nodes.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes.iter().map(|(address, _)| address)).finish()
    }
}

/// Reads the answer to `CLUSTER SLOTS`, given by the node at `asked`, which leaves out its own address when it does
/// not know it.
pub(super) fn ranges(answer: &Value, asked: &Address) -> Option<Vec<Range>> {
    let Value::Array(ranges) = answer else { return None };
    ranges.iter().map(|range| range_of(range, asked)).collect()
}

fn range_of(range: &Value, asked: &Address) -> Option<Range> {
    let Value::Array(parts) = range else { return None };
    let number = |at: usize| match parts.get(at) {
        Some(Value::Int(number)) => u16::try_from(*number).ok().filter(|slot| *slot < SLOTS),
        _ => None,
    };
    let mut nodes = parts.iter().skip(2).map(|node| address_of(node, asked));
    Some(Range {
        first: number(0)?,
        last: number(1)?,
        primary: nodes.next()??,
        replicas: nodes.flatten().collect(),
    })
}

fn address_of(node: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(parts) = node else { return None };
    let port = match parts.get(1) {
        Some(Value::Int(port)) => u16::try_from(*port).ok()?,
        _ => return None,
    };
    let host = parts.first().and_then(text_of).unwrap_or_default();
    Some(known_host(host, port, asked))
}

/// An address without a host is on the host of whoever told it.
pub(super) fn known_host(host: String, port: u16, asked: &Address) -> Address {
    match asked {
        Address::Tcp(own, _) if host.is_empty() || host == "?" => Address::Tcp(own.clone(), port),
        _ => Address::Tcp(host, port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster() {
        // From the specification and from `CLUSTER KEYSLOT` of a server.
        let cases: [(&[u8], u16); 10] = [
            (b"123456789", 12_739),
            (b"foo", 12_182),
            (b"{foo}bar", 12_182),
            (b"a{foo}{bar}", 12_182),
            (b"bar", 5_061),
            (b"", 0),
            (b"foo{}{bar}", 8_363),
            (b"foo{{bar}}zap", 4_015),
            (b"{user1000}.following", 3_443),
            (b"fieldlease:{Product:1}:h", slot(b"Product:1")),
        ];

        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, expected) in cases {
            assert_eq!(slot(key), expected, "{}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn ranges_are_read_whatever_follows_the_port() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let node = |host: Value, port: i64| {
            Value::Array(vec![host, Value::Int(port), text("id"), Value::Array(Vec::new())])
        };
        let range = |first, last, nodes: Vec<Value>| {
            let mut parts = vec![Value::Int(first), Value::Int(last)];
            parts.extend(nodes);
            Value::Array(parts)
        };
        let asked = Address::Tcp("seed".to_owned(), 1);
        let answer = Value::Array(vec![
            range(0, 100, vec![node(text("10.0.0.1"), 7), node(text("10.0.0.2"), 8)]),
            range(101, 16_383, vec![node(text(""), 9)]),
        ]);

        let read = ranges(&answer, &asked).unwrap();

        assert_eq!(read[0].primary.to_string(), "10.0.0.1:7");
        assert_eq!(read[0].replicas[0].to_string(), "10.0.0.2:8");
        assert_eq!(read[1].primary.to_string(), "seed:9");
        assert_eq!(ranges(&Value::Array(vec![range(0, 16_384, vec![])]), &asked), None);
        assert_eq!(ranges(&Value::Nil, &asked), None);
    }
}
