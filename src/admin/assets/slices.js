// The slices of a chart over time and their values: pure functions of the chart's `state`.

/** [{ start, end, open, recorded }], `open` while the slice is not over yet. */
export function slicesOf({ from, to, precision, now, recordedFrom }) {
	const slices = [];
	for (let start = Math.floor(from / precision) * precision; start < to; start += precision) {
		const end = start + precision;
		slices.push({ start, end, open: start <= now && end > now, recorded: start <= now && end > (recordedFrom ?? 0) });
	}
	return slices;
}

/** A recorded slice that is not listed had no requests: 0 in a stack, nothing to measure in a line. */
export function valueOf({ values, kind }, slice, key) {
	return values.get(key)?.get(slice.start) ?? (kind === 'stack' && slice.recorded ? 0 : null);
}

/** { columns, rows } of all series, oldest slice first; `null` is a slice without a value. */
export function chartRows(state) {
	const { series, counts, now } = state;
	const keys = series.map(({ key }) => key);
	return {
		columns: ['start', ...keys, ...(counts ? ['samples'] : [])],
		rows: slicesOf(state).filter(({ start }) => start <= now)
			.map((slice) => [slice.start, ...keys.map((key) => valueOf(state, slice, key)), ...(counts ? [counts.get(slice.start) ?? null] : [])]),
	};
}
