// The controls of a chart over time: lines or heat map, the table, and the logarithmic axis.

import { toggled } from './chart.js';
import { attr, el, labelled, show } from './dom.js';

/**
 * Adds the controls of a chart to its caption: the views after the title, and a menu at the end.
 * @param {any} chart
 */
export function addControls(chart, { caption, plot, table }) {
	const { name, title, offers, onView } = chart.options;
	if (offers.includes('heat')) {
		const choose = (heat) => () => onView({ heat });
		const view = (label, n) => chart.button([label], 'heat', n, ({ heat }) => heat === n, choose(n));
		const views = el('div', 'views', ...['Lines', 'Heat map'].map(view));
		caption.firstChild.after(labelled(views, 'View', 'group'));
	}
	chart.follow = async ({ tables }) => {
		if (tables.has(name) === Boolean(chart.drawTable)) return;
		chart.drawTable = tables.has(name) ? (await import('./chart_readout.js')).drawTable : null;
		show(plot, !chart.drawTable);
		show(table, Boolean(chart.drawTable));
		chart.update(chart.state);
	};
	const toggleTable = () => onView({ table: toggled(chart.state.tables, name) });
	const list = el('div', 'list');
	list.append(chart.button(['Table'], 'view', 'table', ({ tables }) => tables.has(name), toggleTable));
	if (offers.includes('log')) {
		const toggle = () => onView({ log: chart.state.log ? 0 : 1 });
		list.append(chart.button(['Logarithmic'], 'scale', 'log', ({ log }) => log, toggle));
	}
	list.tabIndex = -1; // so that a press on the list does not leave the menu
	caption.lastChild.replaceWith(menu(title, list));
}

function menu(title, list) {
	const summary = el('summary', '', '⋯');
	attr(summary, 'aria-label', `View of ${title}`);
	const node = el('details', 'menu', summary, list);
	const close = () => {
		node.open = false;
		summary.focus();
	};
	list.addEventListener('click', (event) => event.target !== list && close());
	node.addEventListener('focusout', (event) => !node.contains(event.relatedTarget) && (node.open = false));
	node.addEventListener('keydown', (event) => {
		if (event.key !== 'Escape' || !node.open) return;
		close();
		event.stopPropagation();
	});
	return node;
}
