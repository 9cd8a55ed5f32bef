// Ticks of the axes (values from zero, logarithmic values, times of day) and the labels of vertical lines.

const STEPS = [
	1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600,
	2592000,
];
const LETTER = 6.3; // mean width of a label's letter, in pixels; East Asian letters and emoji are twice as wide
const CLOSE = 54; // pixels; closer lines share a label

/** At most five values from 0 on; the last is `max` or more. `whole`: only whole numbers. */
export function linearTicks(max, whole) {
	const least = (max || 1) / 4;
	const power = 10 ** Math.floor(Math.log10(least));
	const step =
		[1, 2, 2.5, 5, 10]
			.map((n) => Number((n * power).toPrecision(3)))
			.find((n) => n >= least && !(whole && n % 1)) ?? 1;
	const length = Math.max(Math.ceil(max / step - 1e-9), 1) + 1;
	return Array.from({ length }, (_, i) => Number((i * step).toPrecision(9)));
}

/** The values 1, 2 and 5 × 10ⁿ from `low` to `high`; with `digits` [1], only powers of ten. */
export function logTicks(low, high, digits = [1, 2, 5]) {
	const ticks = [];
	for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
		ticks.push(...digits.map((n) => Number(`${n}e${power}`)));
	return ticks.filter((value) => value >= low && value <= high);
}

/** The ticks of a logarithmic axis of `height` pixels. */
export function axisTicks(low, high, height) {
	const ticks = logTicks(low, high);
	return ticks.length > Math.min(7, height / 13) ? logTicks(low, high, [1]) : ticks;
}

/** [{ at, style }] at whole seconds, minutes, hours or days of local time or UTC. format.js has the styles. */
export function timeTicks(from, to, most, utc) {
	const step = STEPS.find((s) => (to - from) / s <= most) ?? STEPS.at(-1);
	const offset = (at) => (utc ? 0 : new Date(at * 1000).getTimezoneOffset() * -60);
	const ticks = [];
	for (let local = Math.ceil((from + offset(from)) / step) * step; ; local += step) {
		const at = local - offset(local - offset(from)); // daylight saving may begin or end within the range
		if (at > to) return ticks;
		ticks.push({ at, style: local % 86400 === 0 ? 'day' : step < 60 ? 'second' : 'minute' });
	}
}

/** One row of labels for the lines `[{ x, text }]`, ordered by x. Close lines share one label: "2 marks". */
export function flags(lines, right, noun) {
	/** @type {any[]} */
	const row = [];
	for (const { x, text, level } of lines) {
		if (row.length && x - row.at(-1).x < CLOSE) row.at(-1).texts.push(text);
		else row.push({ x, level, texts: [text] });
	}
	for (const flag of row) flag.whole = flag.texts.length > 1 ? `${flag.texts.length} ${noun}` : flag.texts[0];
	const width = (letters) => [...letters].reduce((sum, letter) => sum + (letter > '\u2e7f' ? 2 : 1) * LETTER, 8);
	// The room for a label left of its line: less if the previous label is right of its own line.
	const roomBefore = (i) =>
		i > 0 ? row[i].x - row[i - 1].x - (roomBefore(i - 1) < width(row[i - 1].whole) ? CLOSE : 0) : (row[i]?.x ?? 0);
	let end = right;
	for (let i = row.length - 1; i >= 0; i--) {
		const flag = row[i];
		flag.isLeft = end - flag.x < width(flag.whole) && roomBefore(i) > end - flag.x; // the label stands left of its line
		const room = flag.isLeft ? roomBefore(i) : end - flag.x;
		const letters = [...flag.whole];
		const most = Math.min(room, 30 * LETTER + 8);
		if (width(letters) > most) {
			while (letters.length && width(letters) + LETTER > most) letters.pop();
			letters.push('…');
		}
		flag.label = letters.join('');
		end = flag.x - (flag.isLeft ? width(letters) : 0);
	}
	return row;
}
