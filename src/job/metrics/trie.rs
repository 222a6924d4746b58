//! Bounded tries: sets of paths that lose their lower branches where they grow too large.
//!
//! The rules are those of the SDKs: a trie's size is the number of paths in it; while it is above
//! the bound, the branch with most paths is cut, at its lowest node whose children are single.

use std::collections::BTreeMap;

use crate::proto::pipeline::{BoundedTrie, BoundedTrieNode};

/// A trie and how many paths it may have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trie {
    bound: usize,
    root: Option<Node>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    /// Whether something was cut below.
    truncated: bool,
    children: BTreeMap<String, Node>,
}

impl Trie {
    /// Used where a payload has none.
    const BOUND_DEFAULT: usize = 100;

    pub(super) fn merge(&mut self, other: Self) {
        let Some(theirs) = other.root else { return };
        self.bound = self.bound.min(other.bound);
        let ours = self.root.get_or_insert_default();
        ours.merge(theirs);
        while ours.size() > self.bound {
            ours.trim();
        }
    }
}

impl Node {
    /// How many paths there are; a node without children is one.
    fn size(&self) -> usize {
        self.children.values().map(Self::size).sum::<usize>().max(1)
    }

    fn merge(&mut self, other: Self) {
        if self.truncated {
            return;
        }
        if other.truncated {
            self.truncate();
            return;
        }
        for (segment, theirs) in other.children {
            match self.children.get_mut(&segment) {
                Some(ours) => ours.merge(theirs),
                None => {
                    self.children.insert(segment, theirs);
                }
            }
        }
    }

    /// Makes the largest branch smaller; the size falls unless it is 1.
    fn trim(&mut self) {
        let mut largest: Option<(usize, &mut Self)> = None;
        for child in self.children.values_mut() {
            let size = child.size();
            if largest.as_ref().is_none_or(|(most, _)| size > *most) {
                largest = Some((size, child));
            }
        }
        match largest {
            None => {}
            Some((1, _)) => self.truncate(),
            Some((_, child)) => child.trim(),
        }
    }

    fn truncate(&mut self) {
        self.truncated = true;
        self.children.clear();
    }
}

impl From<BoundedTrie> for Trie {
    fn from(trie: BoundedTrie) -> Self {
        let root = match (trie.root, trie.singleton) {
            (Some(root), _) => Some(Node::from(root)),
            (None, segments) if segments.is_empty() => None,
            (None, segments) => {
                let mut node = Node::default();
                for segment in segments.into_iter().rev() {
                    let mut parent = Node::default();
                    parent.children.insert(segment, node);
                    node = parent;
                }
                Some(node)
            }
        };
        Self {
            bound: usize::try_from(trie.bound)
                .ok()
                .filter(|bound| *bound > 0)
                .unwrap_or(Self::BOUND_DEFAULT),
            root,
        }
    }
}

impl From<&Trie> for BoundedTrie {
    fn from(trie: &Trie) -> Self {
        Self {
            bound: i32::try_from(trie.bound).unwrap_or(i32::MAX),
            root: trie.root.as_ref().map(BoundedTrieNode::from),
            singleton: Vec::new(),
        }
    }
}

impl From<BoundedTrieNode> for Node {
    fn from(node: BoundedTrieNode) -> Self {
        let children = if node.truncated {
            BTreeMap::new()
        } else {
            node.children
                .into_iter()
                .map(|(segment, child)| (segment, Self::from(child)))
                .collect()
        };
        Self {
            truncated: node.truncated,
            children,
        }
    }
}

impl From<&Node> for BoundedTrieNode {
    fn from(node: &Node) -> Self {
        Self {
            truncated: node.truncated,
            children: node
                .children
                .iter()
                .map(|(segment, child)| (segment.clone(), Self::from(child)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trie(bound: i32, paths: &[&str]) -> Trie {
        let mut all = Trie::from(BoundedTrie {
            bound,
            ..BoundedTrie::default()
        });
        for path in paths {
            all.merge(Trie::from(BoundedTrie {
                bound,
                root: None,
                singleton: path.split('/').map(str::to_owned).collect(),
            }));
        }
        all
    }

    /// All paths, those that were cut with a star at their end.
    fn paths(trie: &Trie) -> Vec<String> {
        fn walk(node: &Node, path: &str, into: &mut Vec<String>) {
            if node.children.is_empty() {
                let star = if node.truncated { "*" } else { "" };
                into.push(format!("{path}{star}"));
            }
            for (segment, child) in &node.children {
                walk(child, &format!("{path}/{segment}"), into);
            }
        }
        let mut all = Vec::new();
        if let Some(root) = &trie.root {
            walk(root, "", &mut all);
        }
        all
    }

    #[test]
    fn paths_unite_and_the_largest_branch_is_cut() {
        let all = trie(3, &["a/b/c", "a/b/d", "x"]);
        assert_eq!(paths(&all), ["/a/b/c", "/a/b/d", "/x"]);
        let mut more = all.clone();
        more.merge(trie(3, &["a/b/e"]));
        assert_eq!(paths(&more), ["/a/b*", "/x"]);
        // What is below a cut is in it already.
        more.merge(trie(3, &["a/b/f/g"]));
        assert_eq!(paths(&more), ["/a/b*", "/x"]);
        // The smaller bound holds.
        more.merge(trie(1, &["y"]));
        assert_eq!(paths(&more), ["*"]);
    }

    #[test]
    fn the_wire_form_reads_back() {
        let all = trie(2, &["a/b", "a/c", "d"]);
        assert_eq!(Trie::from(BoundedTrie::from(&all)), all);
        let empty = trie(0, &[]);
        assert_eq!(empty.bound, 100);
        assert_eq!(Trie::from(BoundedTrie::from(&empty)), empty);
    }
}
