// The problems that must not be missed: the state of the store, losses and warnings, in sentences.

import { plural, visible } from './format.js';

const LOST = 'lost with the store, or while it was away for too long';
const LOSSES = {
	'recording.dropped': ['measurement', 'dropped'],
	'recording.dropped_additions': ['addition', 'dropped after the shutdown'],
	'recording.overflowed': ['request', 'counted as <overflow>, as there are more contexts than max_contexts'],
	'flush.lost': ['measurement', LOST],
	'flush.lost_additions': ['addition', `to counters and rankings ${LOST}`],
	'flush.lost_details': ['detail', `of requests ${LOST}`],
	'flush.store_resets': ['reset', 'of the store: its earlier data is gone'],
	'fold.quarantined': ['value', 'refused by the store'],
	'fold.skewed': ['measurement', 'dropped, as the clocks disagree'],
	'fold.late': ['measurement', 'too late to be counted'],
};

/**
 * The sentences of a health answer, without those that are shown already: they end with the error of `failure`, or
 * begin with the text of `advice`.
 */
export function problems(health, failure, advice = []) {
	// Failures and warnings name the failed action before the error: "action: error".
	const [, error] = /^[^:]*: (.*)$/s.exec(failure?.message ?? '') ?? [];
	const isShown = (warning) =>
		(error && warning.endsWith(error)) || advice.some(({ text }) => warning.startsWith(text));
	const sentences = [health.warnings ?? []]
		.flat()
		.filter((warning) => !isShown(warning))
		.map(visible);
	for (const [path, [noun, fate]] of Object.entries(LOSSES)) {
		const n = path.split('.').reduce((object, key) => object?.[key], health);
		if (n > 0 && !(path === 'flush.store_resets' && sentences.some((sentence) => /\breset\b/.test(sentence))))
			sentences.push(`${plural(n, noun)} ${fate}.`);
	}
	return [...new Set(sentences)];
}
