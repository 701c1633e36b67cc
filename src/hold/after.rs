//! What a change of the book leaves to be done when its lock is given back.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Moment,
    error::Error,
    event::{Event, LossReason},
    hold::{handle::Handle, tenure::Tell},
    lease::Holder,
    scope::Scope,
};

/// What a change of the book asks to be done after its lock is given back.
#[derive(Default)]
pub(crate) struct After {
    /// Nobody listens: no event is made.
    deaf: bool,
    pub(crate) events: Vec<Event>,
    pub(crate) granted: Vec<(Tell, Arc<Handle>)>,
    pub(crate) refused: Vec<(Tell, Error)>,
    /// Wake the loop.
    pub(crate) ring: bool,
}

impl After {
    pub(crate) fn new(deaf: bool) -> Self {
        Self { deaf, ..Self::default() }
    }

    pub(crate) fn granted(&mut self, handle: &Handle) {
        let (holder, waited) = (handle.token, handle.waited);
        self.each(handle, |scope| Event::LeaseGranted {
            scope,
            holder,
            label: Arc::clone(&handle.label),
            waited,
        });
    }

    pub(crate) fn released(&mut self, handle: &Handle, now: Moment) {
        let (holder, held) = (handle.token, now.since(handle.since));
        self.each(handle, |scope| Event::LeaseReleased { scope, holder, held });
    }

    pub(crate) fn release_refused(&mut self, handle: &Handle) {
        let holder = handle.token;
        self.each(handle, |scope| Event::LeaseReleaseRefused { scope, holder });
    }

    pub(crate) fn release_failed(&mut self, handle: &Handle) {
        let holder = handle.token;
        self.each(handle, |scope| Event::LeaseReleaseFailed { scope, holder });
    }

    pub(crate) fn lost(&mut self, handle: &Handle, reason: LossReason) {
        let holder = handle.token;
        self.each(handle, |scope| Event::LeaseLost { scope, holder, reason });
    }

    pub(crate) fn renewed(&mut self, handle: &Handle) {
        let holder = handle.token;
        self.each(handle, |scope| Event::LeaseRenewed { scope, holder });
    }

    pub(crate) fn renew_failed(&mut self, handle: &Handle) {
        let holder = handle.token;
        self.each(handle, |scope| Event::LeaseRenewFailed { scope, holder });
    }

    pub(crate) fn late(&mut self, handle: &Handle, late: Duration) {
        self.each(handle, |scope| Event::HeartbeatLate { scope, late });
    }

    pub(crate) fn busy(&mut self, label: &Arc<str>, by: &[Holder]) {
        if self.deaf {
            return;
        }
        self.events.extend(by.iter().map(|holder| Event::LeaseBusy {
            scope: holder.scope.clone(),
            label: Arc::clone(label),
            held_by: Arc::clone(&holder.label),
        }));
    }

    fn each(&mut self, handle: &Handle, event: impl Fn(Scope) -> Event) {
        if self.deaf {
            return;
        }
        self.events.extend(handle.ask.extent.scopes().iter().map(event));
    }
}
