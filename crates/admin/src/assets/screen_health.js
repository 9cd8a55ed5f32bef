// The health of the recording, the instances of the fleet, and all other data under Details.

import { question } from './api.js';
import { card } from './card.js';
import { attr, el, sync, text } from './dom.js';
import { NONE, bytes, duration, grouped, isNumber, moment, percent, plural, span, time, visible } from './format.js';
import { drawInstances, instanceTable } from './instances.js';
import { problems } from './problems.js';
import { config, isZoomed, range } from './state.js';

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
const OF_INSTANCES = ['flush', 'recording', 'cleaning'];
const LOSSES =
	/dropped|lost|quarantined$|skewed|errors|overflowed|late$|resets|set_aside|hole_bytes|orphaned|unreadable/;

export function mount(root, page) {
	const instances = instanceTable('instances');
	const note = el('span', 'muted');
	const well = el('ul', 'well');
	const lists = Object.entries(CARDS)
		.filter(([name]) => isInstance || !OF_INSTANCES.includes(name))
		.map(([name, [title]]) => {
			const list = el('dl', 'facts');
			return [name, list, card(`health-${name}`, title, { parts: [list] })];
		});
	const cards = el('div', 'cards', ...lists.map(([, , node]) => node));
	const details = el('details', '', el('summary', 'button', 'Details'), cards);
	root.append(
		card('well', 'Summary', { parts: [well] }),
		card('instances', 'Instances', { head: [note], parts: [instances.node] }),
		details,
	);
	const cost = el('p', 'muted', ''); // of this process
	cost.dataset.panel = 'cost';
	root.append(cost);
	let since = 0; // the start of the change of the instance that is out of line
	return {
		needsNoStore: true,
		questions: () => ({
			instances: question('instances', { limit: 1000, ...(since && !isZoomed() ? { from: since } : range()) }),
			overview: 'overview',
		}),
		draw({ instances: fleet, overview, changes }, now, { asOf, health: own }) {
			// Another instance may judge, so the state of judging comes from the answer about changes.
			const judged = changes ? { judged_until: changes.judged_until, ...changes.sight } : {};
			const health = own && { ...own, changes: { ...own.changes, ...judged } };
			const began = changes?.changes.find((one) => one.stands && one.instance)?.since ?? 0;
			if (began !== since) {
				since = began;
				page.ask();
			}
			if (fleet) {
				drawInstances(instances, fleet, note, now);
				page.complete(fleet, fleet.total > 0);
			}
			if (health) {
				text(cost, costOf(health.cost));
				const create = ([topic]) => el('li', '', el('strong', '', topic), el('span'));
				const topics = wellness(health, { asOf, fleet, overview, changes }, now);
				sync(well, topics, 0, create, (line, [, sentence, isWell]) => {
					text(line.lastChild, sentence);
					attr(line, 'data-sense', isWell ? 'good' : 'bad');
				});
			}
			for (const [name, list] of lists) {
				const facts = CARDS[name][1]
					.flatMap((part) => flatten(health?.[part], part))
					.filter(([, value]) => value !== undefined);
				if (name === 'process' && overview)
					facts.push(
						['fleet.instances', overview.instances],
						['fleet.pages', overview.contexts - overview.timers],
						['fleet.timers', overview.timers],
						['fleet.in_flight', overview.in_flight],
					);
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

/** What the dashboard costs in this process. */
const costOf = ({ recorder_bytes: recorder, reader_bytes: reader, task_seconds_per_minute: busy }) =>
	`The dashboard costs this process ${bytes(recorder)} held by the recorder, ${bytes(reader)} by the reader, and ` +
	`${duration(busy)} of work per minute.`;

const ago = (seconds) => (seconds < 2 ? 'just now' : `${span(seconds)} ago`);

/** The most important facts, each as [topic, sentence, whether all is well]. */
function wellness(health, { asOf, fleet, overview, changes }, now) {
	const { store, recording, fold } = health;
	const losses = problems({ recording, flush: health.flush, fold }, null);
	const isAnswering = health.status !== 'down' && !store?.last_error;
	const answered = `${visible(store?.description)}, answered ${ago(store?.contact_age_seconds)}`;
	const unreachable = `unreachable: ${visible(store?.last_error ?? 'no answer')}`;
	const until = isNumber(asOf) && `everything until ${time(asOf)}, ${ago(now - asOf)}`;
	const topics = [
		['Store', isAnswering ? answered : unreachable, isAnswering],
		['Losses', losses.length ? losses.join(' ') : 'none: every request was recorded', losses.length === 0],
		['Shown', until || 'unknown, as the store does not answer', now - asOf < 60],
	];
	if (fleet) {
		const alive = fleet.instances.filter((one) => one.alive);
		const versions = new Set(alive.filter((one) => one.version).map((one) => visible(one.version)));
		const which = versions.size ? `, with version ${[...versions].join(' and ')}` : '';
		const busy = overview ? `; ${plural(overview.in_flight, 'request')} in flight` : '';
		topics.push(['Instances', `${alive.length} of ${fleet.total} report${which}${busy}`, alive.length > 0]);
	}
	if (changes) {
		const { judged_until: until, sight } = changes;
		const seen = `${sight.compared} of ${sight.contexts} pages are compared with their past`;
		const words = until
			? `${seen}, as of ${moment(until, now)}`
			: 'too early to tell: each page is compared with its own past';
		topics.push(['Changes', words, now - (until ?? now) < 300]);
	}
	return topics;
}

/** Flattens objects into dotted keys. */
function flatten(value, key) {
	if (!value || typeof value !== 'object' || Array.isArray(value)) return [[key, value]];
	return Object.entries(value).flatMap(([name, inner]) => flatten(inner, `${key}.${name}`));
}

/** The labels of figures that would be ambiguous without the name of their group. */
const LABELS = {
	'changes.contexts': 'Pages with requests in the last hour',
	'changes.compared': 'Of these, compared with their past',
	'fleet.instances': 'Instances of the fleet',
	'fleet.pages': 'Pages of the fleet',
	'fleet.timers': 'Timers of the fleet',
	'fleet.in_flight': 'In flight in the fleet',
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
