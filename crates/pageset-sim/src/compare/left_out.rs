//! The costs that all machines share, set without each machine in turn.

use crate::machine::{Cycles, Machine, Rate, Shared, Slowdown};

/// The machines of the sweep: fault_cycles, lru_page_cycles and transfer_load set on the rows of batch 31 of the eight others, and
/// the pace that the machine's score of batch 31 has with them. `pageset-lab compare page_fault1-batch-sweep.csv --leave-one-out
/// --seeds 1 --duration 1s --warm-up 1` of commit a4251801 fits and prints them.
const LEFT_OUT: [(&str, [f64; 3], f64); 9] = [
    ("lkp-skl-4sp1", [1541.0, 100.0, 1.937], 0.893),
    ("lkp-bdw-ex1", [1573.0, 97.0, 1.875], 0.904),
    ("lkp-skl-2sp2", [1501.0, 97.0, 1.871], 0.872),
    ("lkp-bdw-ep2", [1515.0, 99.0, 1.880], 0.916),
    ("lkp-hsw-ep2", [1445.0, 91.0, 1.805], 0.974),
    ("lkp-wsm-ep2", [1554.0, 97.0, 1.881], 1.038),
    ("lkp-skl-d01", [1559.0, 97.0, 1.879], 0.990),
    ("lkp-hsw-d01", [1553.0, 97.0, 1.875], 1.079),
    ("lkp-sb02", [1547.0, 97.0, 1.878], 1.143),
];

/// Gives a machine the costs of the other machines, and the pace that its score has then. False for a machine that no costs were
/// set without.
pub fn leave_out(machine: &mut Machine) -> bool {
    let Some((_, [fault, lru_page, load], pace)) = LEFT_OUT.iter().find(|(name, ..)| *name == machine.name) else {
        return false;
    };
    let cycles = |cycles| Cycles::try_from(cycles).unwrap_or(Cycles::none());
    machine.shared = Shared {
        fault_cycles: cycles(*fault),
        lru_page_cycles: cycles(*lru_page),
        transfer_load: Slowdown::try_from(*load).unwrap_or(Slowdown::none()),
    };
    machine.fitted.pace = Rate::try_from(*pace).unwrap_or(Rate::ONE);
    true
}

#[cfg(test)]
mod tests {
    use super::super::{BASE_BATCH, SHIPPED, sweep};
    use super::*;
    use crate::machine::find;

    #[test]
    fn each_machine_of_the_sweep_has_costs_of_the_others() {
        let rows = sweep::rows(SHIPPED[0].0, SHIPPED[0].1).unwrap();
        let machines = rows.iter().filter(|row| row.batch == BASE_BATCH).map(|row| row.machine);
        assert_eq!(machines.collect::<Vec<_>>(), LEFT_OUT.map(|(name, ..)| name));
        for (name, costs, pace) in LEFT_OUT {
            let shipped = find(name).unwrap().unwrap();
            let mut machine = shipped.clone();
            assert!(leave_out(&mut machine));
            let Shared { fault_cycles, lru_page_cycles, transfer_load } = machine.shared;
            assert_eq!([fault_cycles.get(), lru_page_cycles.get(), transfer_load.get()], costs, "{name}");
            assert_eq!(machine.fitted.pace.get(), pace, "{name}");
            // Nothing else of the machine changes.
            assert_eq!(Machine { shared: shipped.shared, fitted: shipped.fitted, ..machine }, shipped, "{name}");
        }
        assert!(!leave_out(&mut find("vm-8").unwrap().unwrap()));
    }
}
