// The paths that use up their error budget too fast.

import { card } from './card.js';
import { contextParts } from './context.js';
import { attr, el, show, sync, text } from './dom.js';
import { duration, times } from './format.js';
import { linkTo } from './table.js';

/**
 * Adds a card that lists these paths after the node `before`.
 * @param {HTMLElement} before
 * @returns {{ draw(paths: object[]): void }} `draw` takes `burning` of `api/overview`
 */
export function burningList(before) {
	const list = el('ul', 'changes');
	const node = card('burning', 'Targets that are missed', { parts: [list] });
	before.after(node);
	return {
		draw(paths) {
			show(node, paths.length > 0);
			sync(list, paths, 'context', create, (line, path) => {
				const [label, name, , , words] = line.children;
				attr(name, 'href', linkTo(path));
				const [one, six] = [path.one_hour, path.six_hours].map((burn) => times(burn?.burn_rate));
				text(label, `${one} the allowed misses`);
				const target = `${100 * path.share}% within ${duration(path.duration, true)}`;
				text(
					words,
					`${target}: missed ${one} as often as allowed in the last hour, ${six} in the last six hours`,
				);
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
