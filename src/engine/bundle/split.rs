//! Splits: a running bundle gives back part of its input.

use crate::coder;
use crate::engine::Lane;
use crate::engine::bundle::{Ended, InFlight};
use crate::engine::queue::Item;
use crate::engine::stages;
use crate::engine::tables::Tables;
use crate::model::bundle::{BundleApplication, ChannelSplit, SplitOutcome};
use crate::model::ids::BundleId;
use crate::model::time::Timestamp;

impl Lane {
    /// Takes a harness's answer to a split request.
    pub(in crate::engine) fn apply_split(
        &mut self,
        now: Timestamp,
        bundle: BundleId,
        outcome: SplitOutcome,
        tables: &mut impl Tables,
    ) {
        // The bundle may have failed meanwhile.
        let Some(mut running) = self.bundles.remove(&bundle) else {
            return;
        };
        running.splitting = false;
        let applied = self.cut_running(now, &mut running, outcome);
        let stage = running.stage;
        match applied {
            Ok(given_back) => {
                for (due, item) in given_back {
                    let queue = &mut self.stages[stage.index()].queue;
                    if due <= now {
                        queue.push(item)
                    } else {
                        queue.push_delayed(due, item)
                    }
                }
            }
            // The harness has split all the same, so the bundle cannot be committed as a whole.
            Err(error) => running.broken = Some(error),
        }
        let ended = running.ended.take();
        self.bundles.insert(bundle, running);
        self.dirty.insert(stage);
        if let Some(Ended {
            residuals,
            finalize,
        }) = ended
        {
            self.finish(now, bundle, residuals, finalize, tables);
        }
    }

    fn cut_running(
        &self,
        now: Timestamp,
        running: &mut InFlight,
        outcome: SplitOutcome,
    ) -> Result<Vec<(Timestamp, Item)>, String> {
        let SplitOutcome {
            primaries,
            residuals,
            channel_splits,
        } = outcome;
        let mut given_back = Vec::new();
        if running.keyed.is_some() && !channel_splits.is_empty() {
            return Err("the harness split a bundle of whole keys".to_owned());
        }
        if let [cut] = &channel_splits[..] {
            let tail = self.cut_input(running, cut)?;
            for primary in primaries {
                let item = self.residual_item(running, primary)?;
                running.input.push(item);
            }
            given_back.extend(self.delayed(now, running, residuals)?);
            given_back.extend(tail.into_iter().map(|item| (now, item)));
        } else if !residuals.is_empty() || !channel_splits.is_empty() {
            return Err(format!(
                "the harness split {} inputs of a bundle that has one",
                channel_splits.len()
            ));
        }
        Ok(given_back)
    }

    /// Shortens the bundle's input at a channel split; returns what is not the bundle's any more.
    fn cut_input(&self, running: &mut InFlight, cut: &ChannelSplit) -> Result<Vec<Item>, String> {
        let kept = cut.last_primary.checked_add(1);
        let (Some(Ok(kept)), Ok(residual)) =
            (kept.map(u64::try_from), u64::try_from(cut.first_residual))
        else {
            return Err("the harness split its input at an element that no input has".to_owned());
        };
        let end = running.first_residual.unwrap_or_else(|| running.elements());
        if residual > end || kept > residual || residual - kept > 1 {
            return Err(format!(
                "the harness split its input of {end} elements after {kept} and before {residual}"
            ));
        }
        let unreadable = |error: coder::Error| format!("its input cannot be read: {error}");
        let input = std::mem::take(&mut running.input);
        let (head, tail) = self.part(running, input, kept).map_err(unreadable)?;
        // An element in the middle is replaced by its own primary and residual.
        let (_, tail) = self
            .part(running, tail, residual - kept)
            .map_err(unreadable)?;
        running.input = head;
        running.first_residual = Some(residual);
        Ok(tail)
    }

    /// Parts items after `count` elements.
    fn part(
        &self,
        running: &InFlight,
        items: Vec<Item>,
        count: u64,
    ) -> Result<(Vec<Item>, Vec<Item>), coder::Error> {
        let input = self.graph.stages[running.stage.index()].inputs[0];
        let coder = &self.graph.pcollections[input.index()].coder;
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        let mut left = count;
        for item in items {
            let elements = u64::from(item.chunk.count);
            if left == 0 {
                tail.push(item);
            } else if elements <= left {
                left -= elements;
                head.push(item);
            } else {
                let (first, rest) = item.cut(left as usize, usize::MAX, coder)?;
                left = 0;
                head.push(first);
                tail.extend(rest);
            }
        }
        Ok((head, tail))
    }

    /// Work given back by a harness, as an item of the stage's queue.
    pub(in crate::engine) fn residual_item(
        &self,
        running: &InFlight,
        application: BundleApplication,
    ) -> Result<Item, String> {
        let node = &self.graph.stages[running.stage.index()];
        let executable = stages::executable(node);
        let Some(splittable) = executable.and_then(|stage| stage.splittable.as_ref()) else {
            return Err(format!(
                "transform {} gave work back but is not splittable",
                application.transform
            ));
        };
        if splittable.transform != application.transform {
            return Err(format!(
                "work was given back for transform {} instead of {}",
                application.transform, splittable.transform
            ));
        }
        let coder = &self.graph.pcollections[node.inputs[0].index()].coder;
        let chunk = coder::windowed_value::scan(coder, application.element)
            .map_err(|error| format!("an element that was given back cannot be read: {error}"))?;
        let reported = splittable.outputs.iter().map(|output| {
            let watermark = application.output_watermarks.get(output);
            watermark.copied().unwrap_or(Timestamp::MIN)
        });
        // An output without consumers may be missing; nothing reported holds at the element itself.
        let reported = reported.min().unwrap_or(Timestamp::MIN);
        Ok(Item {
            hold: reported.max(chunk.min_timestamp),
            // What is left of a truncated restriction is not truncated again.
            truncated: running.truncated,
            ..Item::new(chunk)
        })
    }
}
