// What nobody should miss: the state of the store, losses and warnings, in sentences.

import { plural, visible } from './format.js';

const LOSSES = {
	'recording.dropped': ['measurement', 'dropped'],
	'recording.overflowed': ['request', 'counted as <overflow>, as there are more contexts than max_contexts'],
	'flush.lost': ['measurement', 'lost with the store, or while it was away for too long'],
	'flush.store_resets': ['reset', 'of the store: its earlier data is gone'],
	'fold.quarantined': ['value', 'refused by the store'],
	'fold.skewed': ['measurement', 'dropped, as the clocks disagree'],
	'fold.late': ['measurement', 'too late to be counted'],
};

/** The sentences of a health answer. */
export function problems(health) {
	const sentences = [health.warnings ?? []].flat().map(visible);
	for (const [path, [noun, fate]] of Object.entries(LOSSES)) {
		const n = path.split('.').reduce((object, key) => object?.[key], health);
		if (n > 0) sentences.push(`${plural(n, noun)} ${fate}.`);
	}
	return [...new Set(sentences)];
}
