// Instructions that are shown while no request is recorded.

import { el, show, text } from './dom.js';
import { span } from './format.js';
import { beginOf } from './slices.js';

const HOW =
	'Add the layer to the router after all routes: routes that are added later are not recorded, and neither are those ' +
	'of another version of axum than 0.8. Then send a request:';
const SNIPPET = [
	'let pulse = Pulse::builder().build()?;',
	'let app = Router::new()',
	'    .route("/", get(home))',
	'    .layer(pulse.layer()) // after all routes',
	'    .merge(pulse.mount("/admin/pulse", access));',
].join('\n');

/**
 * Adds the card above a screen.
 * @param {HTMLElement} root
 * @returns {{ draw(week: any, now: number): void }} `draw` takes the paths of a week; hidden while there are requests
 */
export function emptyState(root) {
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
