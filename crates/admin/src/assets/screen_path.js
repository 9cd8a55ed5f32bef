// One path or timer: its changes and their causes, where its time goes, its slowest requests, its instances.

import { question, serverNow } from './api.js';
import { adviceCards, anchor, card, offerExport } from './card.js';
import { isOfAll, longerWait } from './change.js';
import { contextParts } from './context.js';
import { attr, el, say, show, text } from './dom.js';
import { moment } from './format.js';
import { drawHistogram, histogramRows, histogramTable } from './hist.js';
import { AROUND_QUEUE, drawInstances, instanceTable } from './instances.js';
import { lengthName } from './overview.js';
import { pathTarget } from './path_target.js';
import { keptRequests, ofBothHours, requestTable } from './requests.js';
import { drawOutcomes, kindTable } from './screen_errors.js';
import { againstName, compared, isInRange, isZoomed, link, range, state } from './state.js';
import { Tiles } from './tiles.js';
import { runBy, timeGoes } from './time_goes.js';
import { Trends } from './trends.js';
import { changePanel } from './verdict.js';
import { week } from './week.js';

const INSTANCES = 12;
const PROFILE_FOR = 600; // seconds for which the usual week is shown before it is asked for again

export function mount(root, page) {
	// The wait in front of the service, `<queue>`, is recorded as the timer `queue`.
	const isQueue = state.context === '<queue>' || (state.kind === 'timer' && state.context === 'queue');
	const isTimer = isQueue || state.kind === 'timer';
	const name = isQueue ? 'queue' : state.context;
	const context = { context: name, kind: isTimer ? 'timer' : 'http' };
	// A link names the context by its method and path: "GET /users/{id}".
	const [, method = null, path = null] = /^([A-Z]{3,10}) (\/.*)$/s.exec(name) ?? [];
	const title = el('h2', 'title', ...contextParts({ ...context, method, path }));
	const screen = isQueue ? 'overview' : isTimer ? 'timers' : 'paths';
	const back = anchor(link({ screen }), screen[0].toUpperCase() + screen.slice(1));
	const times = ['requests', 'mean', 'p50', 'p95', 'p99'];
	const tiles = new Tiles(isQueue ? times : isTimer ? [...times, 'errors', 'target'] : undefined);
	if (isTimer && !isQueue) tiles.name('Runs');
	const outcomes = el('details', 'tile outcomes');
	outcomes.dataset.panel = 'outcomes';
	if (!isQueue) tiles.node.append(outcomes);
	const trends = new Trends(page, name, context.kind, isQueue ? ['Requests', 'Wait'] : undefined);
	const change = changePanel(page, { isTimer: isTimer && !isQueue });
	const users = runBy(isQueue);
	const target = pathTarget();
	/** @type {any} */
	let shape = {}; // of the histogram
	const picture = el('div', 'histogram');
	const distribution = histogramTable(picture);
	const [compare, slowNote, instanceNote] = [el('span', 'muted'), el('span', 'muted'), el('span', 'muted')];
	const head = [compare, distribution.button];
	const histogram = card('histogram', 'Distribution', { head, parts: [picture, distribution.node] });
	offerExport('Distribution', 'histogram', picture, () => histogramRows(shape));
	const timeTable = timeGoes(name === '<unmatched>' ? 'No timer ran within these requests' : undefined);
	const requests = requestTable(false, { name: 'slow-requests', caption: 'Slowest requests' });
	const listed = anchor(link({ screen: 'slowest', context: state.context }), 'More requests');
	listed.className = 'button quiet';
	show(listed, !isTimer);
	const instances = instanceTable('instances', isQueue ? AROUND_QUEUE : undefined);
	const kinds = kindTable();
	const kindNote = el('span', 'muted');
	const allKinds = anchor(link({ screen: 'errors' }), 'All kinds');
	allKinds.className = 'button quiet';
	const errors = card('kinds', 'Kinds of errors', { head: [kindNote, allKinds], parts: [kinds.node] });
	const usual = week();
	let profile = null; // { answer, until }: the usual week, and when it is asked for again
	const note = el('p', 'nothing card');
	const slow = card('slow-requests', 'Slowest requests', { head: [slowNote, listed], parts: [requests.node] });
	const others = card('instances', 'Instances', { head: [instanceNote], parts: [instances.node] });
	const pairs = [
		el('div', 'pair', histogram, isTimer ? users.node : timeTable.node),
		el('div', 'pair uneven', slow, others),
	];
	const around = isQueue ? [others] : [];
	const below = [...pairs, errors, target.node, usual.node];
	const body = el('div', 'stack', change.node, tiles.node, ...around, trends.node, ...below);
	change.node.append(target.line);
	root.append(el('p', 'crumbs', back, ' / ', title), note, body);
	const advise = adviceCards(change.node);
	// Timers have neither requests nor instances.
	show(pairs[1], !isTimer);
	let ongoing = null;

	/** Draws the most relevant requests: if the page fails, those that failed since the change. */
	function drawRequests({ failing, in_window: inRange, requests: shown }) {
		requests.draw(shown, shown.length ? '' : 'No requests in this hour or the last');
		text(slow.querySelector('h2'), failing ? 'Failing and slowest requests' : 'Slowest requests');
		const old = shown.length ? 'none in this range; these are of this hour or the last' : '';
		text(slowNote, inRange ? `${shown.length} of this range` : old);
	}
	// The time since the change, unless the user has chosen other times.
	const sinceChange = () => (ongoing && !isZoomed() && !state.against ? { from: ongoing.since } : null);
	return {
		remove: () => trends.remove(),
		questions: () => ({
			path: question('path', { ...context, ...compared() }),
			marks: 'marks',
			...(serverNow() > (profile?.until ?? 0) ? { profile: question('profile', context) } : {}),
			...trends.questions(name),
			...((!isTimer || isQueue) && {
				instances: question('instances', {
					limit: 1000,
					context: isQueue ? '' : name,
					...(sinceChange() ?? range()),
				}),
			}),
			// The time since the change is compared with an equally long time before.
			...(sinceChange() ? { since: question('path', { ...context, ...sinceChange() }) } : {}),
		}),
		draw(
			{ path, marks, changes: all, instances: fleet, since, profile: answered, ...series },
			now,
			{ asOf, health, refused },
		) {
			attr(back, 'href', link({ screen }));
			say(note, refused.path ?? '');
			show(body, Boolean(path));
			if (!path) return;
			const marked = marks?.marks ?? [];
			const { window } = path;
			const isRecent = (one) => one.is_ongoing || one.ended > now - 86400;
			const ofAll = isTimer ? [] : (all?.changes ?? []).filter((one) => isRecent(one) && isOfAll(one));
			const changes = [...(path.changes ?? []), ...ofAll];
			const first = changes.find((one) => one.is_ongoing) ?? null;
			if (first?.id !== ongoing?.id) {
				ongoing = first;
				if (first) page.ask();
			}
			const limit = isTimer ? null : (path.path_target?.duration ?? page.config.target);
			const longer = longerWait(changes.filter(isInRange));
			const figures = { ...window, in_flight: path.in_flight };
			tiles.draw(figures, { now, target: limit, length: lengthName(), longer });
			page.complete(window, window.count > 0);
			advise(path.advice ?? []);
			drawOutcomes(outcomes, window);
			target.draw(path.path_target ?? null);
			const kept = keptRequests(path);
			trends.draw(series, { marks: marked, changes: changes.filter(isRecent), asOf, kept });
			const inRange = isZoomed() ? 'this range' : `last ${lengthName()}`;
			const shown =
				sinceChange() && since?.window?.count > 0
					? { ...since.window, label: `since ${moment(ongoing.since, now)}`, old: 'before' }
					: { ...window, label: inRange, old: againstName('the time before') };
			change.draw(changes, marked, now, all, ofBothHours(path.failed_requests));
			const named = shown.kinds ?? [];
			kinds.draw(named.map((row) => ({ ...row, share: row.count / shown.count })));
			show(errors, named.length > 0);
			text(kindNote, shown.label);
			text(compare, `filled: ${shown.label}; outline: ${shown.old}`);
			const { histogram: times, histogram_before: before, p50, p95 } = shown;
			shape = { now: times, before: before?.length ? before : null, p50, p95, target: limit };
			drawHistogram(picture, shape);
			distribution.draw(shape);
			if (isTimer) users.draw(shown, `${shown.label}, against ${shown.old}`);
			else timeTable.draw(shown, health);
			drawRequests(window.worst_requests);
			if (answered && answered !== profile?.answer) profile = { answer: answered, until: now + PROFILE_FOR };
			if (profile) usual.draw(profile.answer, now);
			if (fleet) drawInstances(instances, fleet, instanceNote, now, INSTANCES);
		},
	};
}
