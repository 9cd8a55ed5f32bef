//! The packed form of an instance that is out of line.

use super::{InstanceState, Measure, OutOfLine};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::pack::{Packed, packed_enum};

packed_enum!(Measure { 0 => Time, 1 => Errors });

impl OutOfLine {
    /// The name of the stored part, which is unique within the state.
    pub(crate) fn name(&self) -> impl Packed {
        let subject = (self.instance.clone(), self.context);
        (subject, (self.measure, self.detected))
    }
}

impl InstanceState {
    pub(super) fn is_on_many(&self, instance: &str) -> bool {
        let mut on_many = self.on_many.iter();
        on_many.any(|(other, _)| **other == *instance)
    }

    pub(crate) fn sort(&mut self) {
        self.ongoing.order_by_key(|out_of_line| {
            let subject = (out_of_line.context, out_of_line.instance.clone());
            (out_of_line.detected, subject, out_of_line.measure)
        });
        self.on_many.order_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    }
}
