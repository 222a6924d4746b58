//! Running bundles read values of groups that are too large to be part of the input.

use bytes::Bytes;

use crate::engine::Lane;
use crate::engine::group_by_key::BackedId;
use crate::engine::tables::{PAGE_BYTES, PayloadTable};
use crate::model::ids::BundleId;
use crate::model::state::{StateKey, StateOperation, StateReply};

impl Lane {
    /// Answers a harness; `None` when the key is of another kind.
    pub(in crate::engine) fn serve_values(
        &self,
        bundle: BundleId,
        key: &StateKey,
        operation: &StateOperation,
        payload: &impl PayloadTable,
    ) -> Option<StateReply> {
        let StateKey::Runner { key } = key else {
            return None;
        };
        let page = self.page_of_values(bundle, key, operation, payload);
        Some(match page {
            Ok((data, continuation)) => StateReply::Data { data, continuation },
            Err(error) => StateReply::Error(error),
        })
    }

    fn page_of_values(
        &self,
        bundle: BundleId,
        key: &Bytes,
        operation: &StateOperation,
        payload: &impl PayloadTable,
    ) -> Result<(Bytes, Option<Bytes>), String> {
        let StateOperation::Get { continuation } = operation else {
            return Err("the values of a group can only be read".to_owned());
        };
        let id = BackedId::of_token(key);
        let running = self.bundles.get(&bundle);
        let mut groups = running
            .iter()
            .flat_map(|running| &running.input)
            .flat_map(|item| &item.backed);
        let group = groups
            .find(|group| Some(group.id) == id)
            .ok_or_else(|| format!("{bundle} has no group with these values"))?;
        let from = match continuation {
            None => Some(group.id.from),
            Some(token) => token.as_ref().try_into().ok().map(u64::from_be_bytes),
        };
        let (page, next) = from
            .and_then(|from| {
                group.values.expect(from, PAGE_BYTES, payload);
                group.values.page(from, PAGE_BYTES)
            })
            .ok_or("the continuation token is not one that was given out for this group")?;
        let continuation = next.map(|next| Bytes::copy_from_slice(&next.to_be_bytes()));
        Ok((page, continuation))
    }
}
