// The slices of a chart over time and their values: pure functions of the chart's `state`.

/** The sentence for a time in which no instance recorded. */
export const NOT_RUNNING = 'not recorded: the service was not running';

/** The start of the recorded part of a window. The part lasts until `to` or `now`, and may have gaps. */
export function beginOf({ from, to, complete, not_running_seconds: missing = 0 }, now) {
	const end = Math.min(to, now);
	return end - complete * (end - from) - missing;
}

/** [{ start, end, open, recorded, note }]. `open`: the slice has not ended. `note`: why it is not recorded. */
export function slicesOf({ from, to, precision, now, recordedFrom, notRunning }) {
	const slices = [];
	for (let start = Math.floor(from / precision) * precision; start < to; start += precision) {
		const end = start + precision;
		const isGap = notRunning.some((gap) => gap[0] <= Math.max(start, recordedFrom) && gap[1] >= end);
		const note = start > now ? 'not yet' : end <= recordedFrom ? 'not recorded' : isGap ? NOT_RUNNING : '';
		slices.push({ start, end, open: start <= now && end > now, recorded: !note, note });
	}
	return slices;
}

/** The value of a slice. A recorded slice without a value had no requests: 0 in a stack, `null` in a line. */
export function valueOf({ values, kind }, slice, key) {
	return values.get(key)?.get(slice.start) ?? (kind === 'stack' && slice.recorded ? 0 : null);
}

/** The slices that have begun. */
export const begunSlices = (state) => slicesOf(state).filter(({ start }) => start <= state.now);

/** { columns, rows } of all series, oldest slice first; `null` is a slice without a value. */
export function chartRows(state) {
	const { series, counts } = state;
	const keys = series.map(({ key }) => key);
	return {
		columns: ['start', ...keys, ...(counts ? ['samples'] : [])],
		rows: begunSlices(state).map((slice) => [
			slice.start,
			...keys.map((key) => valueOf(state, slice, key)),
			...(counts ? [counts.get(slice.start) ?? null] : []),
		]),
	};
}
