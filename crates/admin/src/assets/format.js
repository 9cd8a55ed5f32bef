// Formats the numbers of the API: seconds, Unix seconds and counts.

export const NONE = '–';
const THIN = '\u202f'; // a narrow space that does not break
export const isNumber = (n) => typeof n === 'number' && Number.isFinite(n);
const round3 = (n) => Number(n.toPrecision(3));

const SPANS = Object.entries({ d: 86400, h: 3600, min: 60, s: 1, ms: 1e-3, µs: 1e-6, ns: 1e-9 });

/** 850 µs, 12.3 ms, 1.42 s, 3.50 min, 2.10 h; with `round`: 3.5 min */
export function duration(seconds, round = false) {
	if (!isNumber(seconds)) return NONE;
	if (seconds === 0) return '0';
	const value = round3(seconds);
	const [name, unit] = SPANS.find((one) => Math.abs(value) >= one[1] * (one[1] > 1 ? 2 : 1)) ?? SPANS.at(-1);
	const shown = value / unit;
	return `${round || shown >= 1000 ? grouped(round3(shown)) : shown.toPrecision(3)}${THIN}${name}`;
}

/** 12 345 678 */
export function grouped(n) {
	if (!isNumber(n)) return NONE;
	const [whole, part] = String(n).split('.');
	const spaced = whole.replace(/\B(?=(\d{3})+$)/g, THIN);
	return part ? `${spaced}.${part}` : spaced;
}

/** 9 999, 12.4k, 3.21M */
export function count(n) {
	if (!isNumber(n)) return NONE;
	if (Math.abs(n) < 10000) return grouped(Math.round(n));
	const [name, unit] = Object.entries({ T: 1e12, G: 1e9, M: 1e6, k: 1e3 }).find(
		(one) => Math.abs(round3(n)) >= one[1],
	);
	return `${round3(n / unit)}${name}`;
}

/** 132, 12.3, 0.4 */
export const rate = (n) => (n >= 100 || !isNumber(n) ? count(n) : String(round3(n)));

let per = 60;
let unit = 'min';

/** Shows rates per second, or per minute. */
export function usePerSecond(isPerSecond) {
	[per, unit] = isPerSecond ? [1, 's'] : [60, 'min'];
}

/** `n` per `seconds`, as a rate in the chosen unit. */
export const rateOf = (n, seconds) => (isNumber(n) ? (n * per) / seconds : null);

/** A rate in the chosen unit: 132/min */
export const perUnit = (n) => (isNumber(n) ? `${rate(n)}/${unit}` : NONE);

/** The chosen unit, as exported files name it. */
export const unitName = () => `per_${unit === 's' ? 'second' : 'minute'}`;

/** A part of a whole: 34%, 3.4%, <0.01% */
export function percent(part, whole) {
	if (!isNumber(part) || !isNumber(whole) || whole <= 0) return NONE;
	const value = (part / whole) * 100;
	if (value === 0 || value >= 99.95) return `${Math.round(value)}%`;
	if (value < 0.01) return '<0.01%';
	return `${Number(value.toPrecision(value < 1 ? 1 : 2))}%`;
}

export function bytes(n) {
	if (!isNumber(n)) return NONE;
	const step = Math.min(Math.floor(Math.log2(Math.max(n, 1)) / 10), 4);
	return `${round3(n / 1024 ** step)}${THIN}${['B', 'KiB', 'MiB', 'GiB', 'TiB'][step]}`;
}

/** @type {Record<string, Intl.DateTimeFormatOptions>} */
const STYLES = {
	second: { timeStyle: 'medium' },
	minute: { timeStyle: 'short' },
	day: { day: 'numeric', month: 'short' },
	moment: { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
	full: { dateStyle: 'medium', timeStyle: 'medium' },
};
/** @type {Record<string, Intl.DateTimeFormat>} */
const formats = {};
let isUtc = null;

/** Shows times in UTC, or in the browser's time zone. */
export function useUtc(utc) {
	if (isUtc === utc) return;
	isUtc = utc;
	const zone = utc ? { timeZone: 'UTC' } : {};
	for (const [style, options] of Object.entries(STYLES))
		formats[style] = new Intl.DateTimeFormat('en-GB', { ...options, ...zone });
}
useUtc(false);

/** Unix seconds as a time of day or a date; style: second, minute, day, moment or full. */
export function time(unix, style = 'second') {
	return isNumber(unix) && Math.abs(unix) < 8e12 ? formats[style].format(unix * 1000) : NONE;
}

/** The time of day, with the date if that differs from the date of `now`. */
export function moment(unix, now) {
	return time(unix, time(unix, 'day') === time(now, 'day') ? 'minute' : 'moment');
}

/** A length of time: 40 s, 8 min, 2 h 5 min, 3 d 4 h */
export function span(seconds) {
	if (!isNumber(seconds)) return NONE;
	const whole = Math.max(Math.round(seconds), 0);
	const at = SPANS.findIndex(([, unit]) => Math.max(whole, 1) >= unit);
	const [[name, unit], [smallName, smaller]] = SPANS.slice(at);
	const first = `${Math.floor(whole / unit)}${THIN}${name}`;
	const more = smaller >= 60 ? Math.floor((whole % unit) / smaller) : 0;
	return more > 0 ? `${first} ${more}${THIN}${smallName}` : first;
}

/** 1.52×, 12× */
export function times(ratio) {
	return isNumber(ratio) ? `${ratio >= 9.95 ? grouped(Math.round(ratio)) : ratio.toFixed(ratio < 2 ? 2 : 1)}×` : NONE;
}

/** A ratio to an earlier value: +12%, −3%, 2.4×, ±0% */
export function delta(ratio) {
	if (!isNumber(ratio)) return '';
	if (ratio >= 2) return times(ratio);
	const value = Math.round((ratio - 1) * 100);
	return value === 0 ? '±0%' : `${value > 0 ? '+' : '−'}${Math.abs(value)}%`;
}

/** Whether a ratio of durations is clearly worse or better: "bad", "good" or null. */
export function sense(ratio, margin = 0.1) {
	if (!isNumber(ratio)) return null;
	return ratio >= 1 + margin ? 'bad' : ratio <= 1 - margin ? 'good' : null;
}

/** A long name without its middle. The end stays, because names often differ only there. */
export function shortened(name, most = 64) {
	const all = [...name];
	if (all.length <= most) return name;
	return `${all.slice(0, most * 0.4).join('')}…${all.slice(1 - most * 0.6).join('')}`;
}

/** 1 error, 2 errors */
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? '' : 's'}`;

/** Makes control characters visible, also invisible characters and those that change the direction of text. */
export const revealed = (text) =>
	text
		.replace(/[\u0000-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
		.replace(
			/[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu,
			(c) => `\\u{${c.codePointAt(0).toString(16)}}`,
		);

/** A name with its hidden characters made visible: names come from requests. */
export function visible(name) {
	const text = String(name ?? '');
	if (text === '') return '(empty)';
	return revealed(text.replace(/^ +| +$/g, (spaces) => '␣'.repeat(spaces.length)));
}
