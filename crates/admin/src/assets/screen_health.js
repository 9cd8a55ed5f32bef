// Problems that need an action, the health in six figures, the fleet's instances, and all other data under Details.

import { question } from './api.js';
import { card } from './card.js';
import { TOO_EARLY, headline, isOfAll, since, where } from './change.js';
import { attr, el, labelled, sync, text } from './dom.js';
import { NONE, bytes, duration, grouped, isNumber, moment, percent, span, time, visible } from './format.js';
import { drawInstances, instanceTable } from './instances.js';
import { losses, problems } from './problems.js';
import { config, isZoomed, range, seconds } from './state.js';
import { linkTo } from './table.js';

// A process that only reads the store is no instance: it has no flush, recording or cleaning to show.
const isInstance = config.is_instance !== false;

/** The cards, and the parts of the health answer that they show. */
const CARDS = {
	store: ['Store', ['store', 'reading']],
	flush: ['Flush', ['flush']],
	recording: ['Recording', ['recording', 'completeness']],
	fold: ['Fold and journal', ['fold']],
	changes: ['Changes', ['changes']],
	cleaning: ['Cleaner', ['cleaning']],
	process: [isInstance ? 'This instance' : 'This dashboard', ['instance', 'status', 'version', 'wrong_credentials']],
};
const LISTED = 5; // problems
const REPORTED = 7200; // the longest range, in seconds, whose reports are all kept
const OF_INSTANCES = ['flush', 'recording', 'cleaning'];
const LOSSES =
	/dropped|lost|quarantined$|skewed|errors|overflowed|late$|resets|set_aside|hole_bytes|orphaned|unreadable/;

export function mount(root, page) {
	const instances = instanceTable('instances');
	const note = el('span', 'muted');
	const calm = el('span', 'muted');
	const todo = el('ul', 'todo');
	const todos = card('actions', 'Needs an action', { head: [calm], parts: [todo] });
	const tiles = labelled(el('section', 'card tiles'), 'Health');
	tiles.dataset.panel = 'well';
	const lists = Object.entries(CARDS)
		.filter(([name]) => isInstance || !OF_INSTANCES.includes(name))
		.map(([name, [title]]) => {
			const list = el('dl', 'facts');
			return [name, list, card(`health-${name}`, title, { parts: [list] })];
		});
	const cards = el('div', 'cards', ...lists.map(([, , node]) => node));
	const details = el('details', '', el('summary', 'button', 'Details for developers'), cards);
	const cost = el('p', 'muted', ''); // of this process
	cost.dataset.panel = 'cost';
	root.append(todos, tiles, card('instances', 'Instances', { head: [note], parts: [instances.node] }), details, cost);
	let from = 0; // the start of an instance's ongoing change, or 0
	return {
		needsNoStore: true,
		questions: () => ({
			instances: question('instances', { limit: 1000, ...(from && !isZoomed() ? { from } : range()) }),
		}),
		draw({ instances: fleet, changes }, now, { asOf, health: own }) {
			// Another instance may judge, so the state of judging comes from the answer about changes.
			const judged = changes ? { judged_until: changes.judged_until, ...changes.coverage } : {};
			const health = own && { ...own, changes: { ...own.changes, ...judged } };
			const began = changes?.changes.find((one) => one.is_ongoing && one.instance)?.since ?? 0;
			if (began !== from) {
				from = began;
				page.ask();
			}
			if (fleet) {
				drawInstances(instances, fleet, note, now);
				page.complete(fleet, fleet.total > 0 && seconds() <= REPORTED);
			}
			if (health) {
				text(cost, costOf(health.cost));
				const needed = actions(health, changes, now);
				text(calm, needed.length ? '' : 'Nothing needs an action');
				todos.classList.toggle('is-calm', needed.length === 0);
				const item = () => el('li', '', el('a'));
				sync(todo, needed, 'id', item, ({ firstChild: anchor }, { words, href }) => {
					text(anchor, words);
					attr(anchor, 'href', href);
				});
				const create = () => el('div', 'tile', el('h3'), el('p', 'value'), el('p', 'delta'));
				const known = figures(health, { asOf, fleet, changes }, now);
				sync(tiles, known, 0, create, (tile, [label, value, note, isWell]) => {
					[label, value, note].forEach((words, at) => text(tile.children[at], words));
					attr(tile.children[1], 'data-sense', isWell ? null : 'bad');
				});
			}
			for (const [name, list] of lists) {
				const facts = CARDS[name][1]
					.flatMap((part) => flatten(health?.[part], part))
					.filter(([, value]) => value !== undefined);
				const create = ([key]) => el('div', '', el('dt', '', label(key)), el('dd'));
				sync(list, facts, 0, create, ({ lastChild: shown }, [key, value]) => {
					shown.dataset.fact = key;
					text(shown, inWords(key, value, now));
					const n = Array.isArray(value) ? value.length : value;
					shown.classList.toggle('warn-text', n > 0 && LOSSES.test(key));
				});
			}
		},
	};
}

const costOf = ({ recorder_bytes: recorder, reader_bytes: reader, task_seconds_per_minute: busy }) =>
	`tower-pulse uses ${isInstance ? `${bytes(recorder)} for recording, ` : ''}${bytes(reader)} for answers` +
	`${isInstance ? `, and ${duration(busy)} of work per minute` : ''}.`;

const ago = (seconds) => (seconds < 2 ? 'just now' : isNumber(seconds) ? `${span(seconds)} ago` : NONE);

/** The warnings, the losses, and links to the most urgent changes without an acknowledgement. */
function actions(health, changes, now) {
	const open = (changes?.changes ?? []).filter((one) => one.is_ongoing && one.kind !== 'faster' && !one.acknowledged);
	const changed = open.slice(0, LISTED).map((one) => {
		const pages = isOfAll(one) ? 'all pages' : visible(one.context);
		const words = `${pages}: ${headline(one)}${where(one)}, ${since(one, now)}`;
		return { id: one.id, words, href: linkTo(one) };
	});
	return [...problems(health, null).map((words) => ({ id: words, words, href: null })), ...changed];
}

/** The six figures of the health, each as [label, value, note, whether all is well]. */
function figures(health, { asOf, fleet, changes }, now) {
	const { store, flush, fold } = health;
	const isAnswering = health.status !== 'down' && !store?.last_error;
	const answered = isAnswering ? ago(store?.contact_age_seconds) : 'unreachable';
	const said = isAnswering ? store?.description : store?.last_error;
	// An overflow or a reset alone loses no request.
	const lost = losses(health).find(({ path }) => !/overflowed|resets/.test(path));
	const known = isInstance ? 'as far as this instance and the store know' : 'see the instances';
	const alive = fleet?.instances.filter((one) => one.alive) ?? [];
	const versions = [...new Set(alive.flatMap((one) => (one.version ? [`version ${visible(one.version)}`] : [])))];
	const reporting = fleet ? `${alive.length} of ${fleet.total}` : NONE;
	const { judged_until: judged, coverage } = changes ?? {};
	const seen = judged && `${coverage.compared} of ${coverage.contexts} pages have enough requests to be compared`;
	const spot = now - (judged ?? now) >= 180 && health.changes.blind_spots?.[0];
	const waits = (flush ? flush.pending_age_seconds : fold?.journal?.oldest_age_seconds) ?? 0;
	return [
		['Store answered', answered, visible(said ?? ''), isAnswering],
		['Lost', lost?.amount ?? 'nothing', lost ? 'see above' : known, !lost],
		['Shown until', isNumber(asOf) ? time(asOf) : NONE, isNumber(asOf) ? ago(now - asOf) : '', now - asOf < 60],
		['Instances reporting', reporting, versions.join(', '), alive.length > 0],
		['Changes judged until', judged ? moment(judged, now) : NONE, spot || seen || TOO_EARLY, !spot],
		['Oldest sample that waits', waits > 0 ? duration(waits) : 'nothing waits', '', waits < 10],
	];
}

function flatten(value, key) {
	if (!value || typeof value !== 'object' || Array.isArray(value)) return [[key, value]];
	return Object.entries(value).flatMap(([name, inner]) => flatten(inner, `${key}.${name}`));
}

/** The labels of figures that would be ambiguous without the name of their group. */
const LABELS = {
	'flush.in_doubt_age_seconds': 'Call without an answer for',
	'flush.pending_age_seconds': 'Oldest sample not stored',
	'recording.pending_series': 'Paths and counters to store',
	'changes.contexts': 'Pages with requests in the last hour',
	'changes.compared': 'Of these, compared with their past',
	'cleaning.contexts': 'Forgotten contexts',
};

function label(key) {
	if (LABELS[key]) return LABELS[key];
	const words = key
		.replace(/^[^.]*\./, '')
		.replace(/^version$/, 'tower-pulse')
		.replace('process_bytes', 'this process at most')
		.replace('store_bytes', 'the store at most')
		.replace(/_(seconds|unix)$/, '')
		.replace(/[_.]+/g, ' ');
	return words.charAt(0).toUpperCase() + words.slice(1);
}

function inWords(key, value, now) {
	if (key === 'instance' && value === null) return 'none: it only reads';
	if (value === null || value === undefined || value === '') return NONE;
	if (typeof value === 'boolean') return value ? 'yes' : 'no';
	if (Array.isArray(value)) {
		const words = value.map((one) => visible(typeof one === 'object' ? Object.values(one).join(': ') : one));
		return words.join('\n') || 'none';
	}
	if (!isNumber(value)) return visible(value);
	if (/bytes/.test(key)) return bytes(value);
	if (key === 'completeness') return percent(value, 1);
	if (/(_at|\.at|_until|until)$/.test(key) && value > 1e9) return `${moment(value, now)}`;
	if (/seconds/.test(key)) return duration(value);
	return grouped(value);
}
