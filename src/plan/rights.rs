//! Who may write what.

use super::{DenyRule, ForceRight, Mode, PlanInput};
use crate::{
    entity::{GroupName, WriterKind},
    path::Path,
    registry::{Group, Owner, Resolved},
};

/// Whether the writer may write a path with these rules.
pub(super) fn may_write(input: &PlanInput<'_>, resolved: &Resolved) -> Result<(), DenyRule> {
    let Some(group) = &resolved.group else { return Err(DenyRule::Unlisted) };
    may_write_group(input, group)
}

pub(super) fn may_write_group(input: &PlanInput<'_>, group: &Group) -> Result<(), DenyRule> {
    if matches!(input.mode, Mode::Apply { .. }) && group.owner != Owner::System {
        return Err(DenyRule::Apply);
    }
    if !group.may_write(input.writer) {
        let kind = match group.owner {
            Owner::Editor => input.writer.kind == WriterKind::Editor,
            Owner::System => input.writer.kind == WriterKind::Worker,
            Owner::Shared => true,
            Owner::Deny => false,
        };
        return Err(if kind { DenyRule::Writers } else { DenyRule::Owner });
    }
    let allowed = input.groups.is_none_or(|groups| groups.contains(&group.name));
    if allowed { Ok(()) } else { Err(DenyRule::Credential) }
}

/// Whether one of these names, groups or `editor`, means the writer.
pub(super) fn is_listed(input: &PlanInput<'_>, names: &[GroupName]) -> bool {
    names.iter().any(|name| match input.rules.groups.get(name) {
        Some(group) => may_write_group(input, group).is_ok(),
        None => name.as_str() == "editor" && input.writer.kind == WriterKind::Editor,
    })
}

/// Whether a refusal at this path is overridden.
pub(super) fn is_forced(input: &PlanInput<'_>, unit: &Path, needs: ForceRight) -> bool {
    input.force_right >= needs
        && input.force.iter().any(|path| unit.is_within(path) || path.is_within(unit))
}
