// The warnings and losses in a health answer, in sentences.

import { plural, visible } from './format.js';

const LOST = ['lost by the store or at a shutdown', 'give Redis a replica, or raise replay_bytes or shutdown_timeout'];
const DROPPED = ['recorded after the shutdown', 'call pulse.shutdown() last'];
// The counts of losses, each with its noun, its fate, and what to do if the count grows.
const LOSSES = {
	'recording.dropped': ['sample', ...DROPPED],
	'recording.dropped_additions': ['addition', ...DROPPED],
	'recording.overflowed': ['sample', 'counted as <overflow>', 'use fewer contexts, or raise max_contexts'],
	'flush.lost': ['sample', ...LOST],
	'flush.lost_additions': ['addition', ...LOST],
	'flush.lost_details': ['detail', 'lost', 'give Redis a replica, or raise pending_bytes'],
	'flush.store_resets': ['reset', 'of the store', 'turn on persistence'],
	'fold.quarantined': ['write', 'omitted: keys held foreign values', 'find the writer of these values'],
	'fold.skewed': ['sample', 'refused, over an hour ahead of the store', 'set the clocks'],
	'fold.journal.set_aside': ['sample', 'set aside', 'start the newer version, or look for RENAME'],
	'fold.journal.hole_bytes': ['byte', 'of the journal lost', 'look for DEL, FLUSHALL and evictions'],
	'fold.journal.orphaned': ['entry', 'of the journal orphaned', 'look for DEL, RENAME and evictions'],
};

/**
 * The sentences of a health answer. Sentences that the page already shows are omitted: those that end with the error of
 * `failure`, or begin with the text of an `advice`.
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
	const lossTexts = lost.map(({ amount, fate, remedy }) => `${amount} ${fate}. If the count grows, ${remedy}.`);
	return [...new Set([...sentences, ...lossTexts])];
}

/** The losses in a health answer: { path, amount, fate, remedy }. */
export const losses = (health) =>
	Object.entries(LOSSES)
		.map(([path, [noun, fate, remedy]]) => {
			const n = path.split('.').reduce((object, key) => object?.[key], health);
			return { path, fate, remedy, amount: n > 0 ? plural(n, noun).replace('ys', 'ies') : '' };
		})
		.filter(({ amount }) => amount);
