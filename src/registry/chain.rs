//! Chains of `extends`: which entity type stands under which.

use std::{collections::HashMap, rc::Rc};

use super::{
    extends::Draft,
    raw::{RawEntity, RawRegistry},
    resolve::Findings,
    suggest::or_known,
};

/// Most entity types in one chain of `extends`, the first not counted.
const CHAIN_MAX: usize = 8;

/// Every entity type of a file by name, and drafts that were asked for twice.
pub(crate) struct Drafts<'r> {
    raw: &'r RawRegistry,
    by_name: HashMap<&'r str, usize>,
    bases: HashMap<usize, Rc<Draft<'r>>>,
}

impl<'r> Drafts<'r> {
    pub(crate) fn new(raw: &'r RawRegistry, findings: &mut Findings) -> Self {
        let mut by_name = HashMap::with_capacity(raw.entities.len());
        for (index, entity) in raw.entities.iter().enumerate() {
            let first = *by_name.entry(entity.name.value.as_str()).or_insert(index);
            if let Some(first) = raw.entities.get(first).filter(|_| first != index) {
                let at = first.name.span;
                let message = format!(
                    "`{}` comes twice; the first is in line {}",
                    entity.name.value, at.line
                );
                let help = "write one entry per entity type";
                let note = (at, "first here".to_owned());
                findings.note("duplicate_key", entity.name.span, message, help, note);
            }
        }
        Self { raw, by_name, bases: HashMap::new() }
    }

    /// The draft of an entity type, with its bases laid under it.
    pub(crate) fn draft(&mut self, index: usize, findings: &mut Findings) -> Option<Draft<'r>> {
        let entity = self.raw.entities.get(index)?;
        let mut draft = match self.base(index, findings) {
            Base::None => Draft::new(entity),
            Base::Missing => Draft { faulty: true, ..Draft::new(entity) },
            Base::At(base) => (*self.based(base, findings)?).clone(),
        };
        draft.over(entity, findings);
        Some(draft)
    }

    fn based(&mut self, index: usize, findings: &mut Findings) -> Option<Rc<Draft<'r>>> {
        if let Some(known) = self.bases.get(&index) {
            return Some(known.clone());
        }
        let draft = Rc::new(self.draft(index, findings)?);
        self.bases.insert(index, draft.clone());
        Some(draft)
    }

    /// Follows the chain once to its end, so that what comes after cannot run in a circle.
    fn base(&self, index: usize, findings: &mut Findings) -> Base {
        let mut chain = vec![index];
        let mut first = None;
        let mut at = index;
        while let Some(entity) = self.raw.entities.get(at) {
            let Some(extends) = &entity.extends else { break };
            let Some(next) = self.by_name.get(extends.value.as_str()).copied() else {
                if at == index {
                    let names = self.raw.entities.iter().map(|entity| entity.name.value.as_str());
                    findings.error(
                        "unknown_entity",
                        extends.span,
                        format!(
                            "`{}` extends `{}`, which is not here",
                            entity.name.value, extends.value
                        ),
                        or_known(&extends.value, names),
                    );
                }
                return Base::Missing;
            };
            if let Some(start) = chain.iter().position(|seen| *seen == next) {
                self.cycle(chain.get(start..).unwrap_or_default(), findings);
                return Base::Missing;
            }
            first.get_or_insert(next);
            chain.push(next);
            if chain.len() > CHAIN_MAX + 1 {
                if let Some(extends) = self.raw.entities.get(index).and_then(|e| e.extends.as_ref())
                {
                    let message = format!("more than {CHAIN_MAX} entity types extend one another");
                    let help = "take over the rules of a type nearer to the end of the chain";
                    findings.error("extends_too_deep", extends.span, message, help);
                }
                return Base::Missing;
            }
            at = next;
        }
        first.map_or(Base::None, Base::At)
    }

    /// Reported once, at the member that stands first in the file.
    fn cycle(&self, members: &[usize], findings: &mut Findings) {
        let Some(start) = members.iter().enumerate().min_by_key(|(_, index)| **index) else {
            return;
        };
        let turned = members.iter().cycle().skip(start.0).take(members.len() + 1);
        let entities: Vec<&RawEntity> =
            turned.filter_map(|index| self.raw.entities.get(*index)).collect();
        let names: Vec<&str> = entities.iter().map(|entity| entity.name.value.as_str()).collect();
        let Some(extends) = entities.first().and_then(|entity| entity.extends.as_ref()) else {
            return;
        };
        let name = names.first().copied().unwrap_or_default();
        let message = format!("`{name}` extends itself: {}", names.join(" -> "));
        findings.error("extends_cycle", extends.span, message, "remove one of the `extends`");
    }
}

enum Base {
    None,
    Missing,
    At(usize),
}
