// The paths that use up their error budget too fast.

import { card } from './card.js';
import { contextParts } from './context.js';
import { attr, el, show, sync, text } from './dom.js';
import { exactPercent, missed, tooFast } from './path_target.js';
import { duration } from './format.js';
import { linkTo } from './table.js';

/**
 * Adds a card that lists these paths after the node `before`.
 * @param {HTMLElement} before
 * @returns {{ draw(paths: object[]): void }} `draw` takes `burning` of `api/overview`
 */
export function burningList(before) {
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
