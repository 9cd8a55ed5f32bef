// The problems that must not be missed: the state of the store, losses and warnings, in sentences.

import { plural, visible } from './format.js';

const LOST = 'lost with the store, or at a shutdown: add a replica, or raise replay_bytes or shutdown_timeout';
const LATE = 'dropped: shut the server down before the Pulse';
// The counts of losses, each with its noun, its fate, and what to do.
const LOSSES = {
	'recording.dropped': ['sample', LATE],
	'recording.dropped_additions': ['addition', LATE],
	'recording.overflowed': ['request', 'counted as <overflow>: raise max_contexts'],
	'flush.lost': ['sample', LOST],
	'flush.lost_additions': ['addition', LOST],
	'flush.lost_details': ['detail', 'lost: add a replica, or raise pending_bytes'],
	'flush.store_resets': ['reset', 'of the store: turn on persistence'],
	'fold.quarantined': ['value', 'dropped: another program uses the key'],
	'fold.skewed': ['sample', 'dropped: set the clocks'],
	'fold.journal.set_aside': ['sample', 'set aside: start the newer version, so that no more are'],
	'fold.journal.hole_bytes': ['byte', 'of the journal lost: look for DEL and evictions'],
	'fold.journal.orphaned': ['call', 'lost with the journal’s state: look for RENAME and evictions'],
};

/**
 * The sentences of a health answer. Sentences that are shown already are omitted: those that end with the error of
 * `failure`, or begin with the text of `advice`.
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
	const isReset = sentences.some((sentence) => /\breset\b/.test(sentence));
	const lost = losses(health).filter(({ path }) => !(isReset && path === 'flush.store_resets'));
	return [...new Set([...sentences, ...lost.map(({ amount, fate }) => `${amount} ${fate}.`)])];
}

/** The losses in a health answer: { path, amount, fate }. */
export const losses = (health) =>
	Object.entries(LOSSES)
		.map(([path, [noun, fate]]) => {
			const n = path.split('.').reduce((object, key) => object?.[key], health);
			return { path, fate, amount: n > 0 ? plural(n, noun) : '' };
		})
		.filter(({ amount }) => amount);
