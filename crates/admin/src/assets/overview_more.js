// The rare parts of the overview: instructions while nothing is recorded, advice, and missed targets.

import { adviceCards, card } from './card.js';
import { contextParts } from './context.js';
import { attr, el, show, sync, text } from './dom.js';
import { duration, span } from './format.js';
import { exactPercent, missed, tooFast } from './path_target.js';
import { beginOf } from './slices.js';
import { linkTo } from './table.js';

const HOW =
	'Routes after the layer, or of another axum than 0.8, are missing. Add the layer after all routes; send a request:';
const SNIPPET = [
	'let pulse = Pulse::builder().build()?;',
	'let app = Router::new()',
	'    .route("/", get(home))',
	'    .layer(pulse.layer()) // after all routes',
	'    .merge(pulse.mount("/admin/pulse", access));',
].join('\n');

/**
 * Adds the parts to the overview.
 * @param {HTMLElement} root
 * @param {HTMLElement} attention
 * @param {HTMLElement} tiles
 * @returns {(overview: any, week: any, now: number) => void} draws an answer; `week`: the paths of a week, while the
 * range has no requests
 */
export function moreOfOverview(root, attention, tiles) {
	const advise = adviceCards(tiles);
	const burning = burningList(attention);
	const empty = emptyState(root);
	return ({ advice, burning: burnt = [] }, week, now) => {
		advise(advice ? [advice] : []);
		burning.draw(burnt);
		empty.draw(week, now);
	};
}

/**
 * Adds the card with instructions above a screen.
 * @param {HTMLElement} root
 * @returns {{ draw(week: any, now: number): void }} `draw` takes the paths of a week; any path hides the card
 */
function emptyState(root) {
	const title = el('h2');
	const node = el('section', 'card nothing', title, el('p', '', HOW), el('pre', '', SNIPPET));
	node.dataset.panel = 'empty';
	root.prepend(node);
	return {
		draw(week, now) {
			show(node, week?.total === 0);
			if (!week) return;
			const begin = beginOf(week, now);
			const isYoung = begin > week.from + 60;
			const young = `No request yet, ${span(now - begin)} after the first start`;
			text(title, isYoung ? young : 'No request in the last week');
		},
	};
}

/**
 * Adds a card after the node `before`, with the paths that use up their error budget too fast.
 * @param {HTMLElement} before
 * @returns {{ draw(paths: object[]): void }} `draw` takes `burning` of `api/overview`
 */
function burningList(before) {
	const list = el('ul', 'changes');
	const node = card('burning', 'Error budgets used too fast', { parts: [list] });
	before.after(node);
	return {
		draw(paths) {
			show(node, paths.length > 0);
			sync(list, paths, 'context', create, (line, path) => {
				const [label, name, , , words] = line.children;
				attr(name, 'href', linkTo(path));
				text(label, tooFast(path.one_hour));
				text(words, `${exactPercent(path.share)} within ${duration(path.duration, true)}: ${missed(path)}`);
			});
		},
	};
}

function create(path) {
	const label = el('span', 'change');
	const name = el('a', 'open', ...contextParts({ ...path, kind: 'http' }));
	const line = el('li', '', label, name, el('span'), el('span'), el('span', 'suspect'), el('span'));
	line.dataset.context = path.context;
	return line;
}
