// Connects the parts of the page: its screens, the state in the URL, and the poller.

import { ApiError, UnexpectedAnswer, ask, question, serverNow } from './api.js';
import { forgetExports, offered } from './card.js';
import { $, all, attr, button, el, retried, say, show, sync, text } from './dom.js';
import { keepOngoing, level } from './change.js';
import { moment, percent, plural, shortened, span, time, usePerSecond, useUtc, visible } from './format.js';
import { mount } from './overview.js';
import { Poller } from './poll.js';
import { problems } from './problems.js';
import { beginOf } from './slices.js';
import {
	adaptRange,
	config,
	fitsRange,
	isOffered,
	isZoomed,
	link,
	RANGES,
	rangeName,
	read,
	REFRESH,
	SCREENS,
	seconds,
	setDays,
	settled,
	state,
	write,
} from './state.js';

const STALE = 60; // seconds that answers may be behind the clock
const LOGGED_OUT = [401, 403];
const MAX_ANSWERS = 24;

const root = $('screen');
const nothing = el('p', 'nothing card', 'Nothing yet: no answer has arrived.');
const view = {}; // the mounted screen
const icon = $('icon').href;
const lastAnswers = new Map(); // by their questions
const shown = { at: 0, asOf: 0, failure: null };
const isPaused = () => state.paused === 1;
let styled = null; // resolves once the style of the other screens is loaded
let compare = null; // draws the choice of the range to compare with; null until it is loaded

/** Shows the note `said` on the range; without `said`, hides the note. */
const note = (said) => say($('complete'), said);

/** The functions that screens call. */
const page = {
	config,
	/** Changes the state, and asks again. `inPlace`: without a step for the Back button. */
	go(values, inPlace = false) {
		write(values, inPlace);
		changed();
	},
	/** Asks again now, because the questions have changed. After a failure, the next retry asks instead. */
	ask: () => setTimeout(() => shown.failure || poller.now()),
	/**
	 * Shows how much of the range was recorded, and how many requests are missing. `any`: whether the range has
	 * requests.
	 */
	complete(covered, any) {
		const now = serverNow();
		const { from, to, complete, not_running_seconds: stopped, missing } = covered;
		view.before = covered.before;
		compare?.(view.before, now);
		const begin = beginOf(covered, now);
		const isYoung = begin - from > 0.005 * (to - from);
		if (isYoung && !isZoomed()) view.begin = begin;
		if (adaptRange(now - (view.begin ?? 0))) {
			controls();
			page.ask();
		}
		const parts = [
			`${percent(complete, 1)} of this range was recorded`,
			isYoung && `data since ${moment(begin, now)}`,
			stopped && `the service was not running for ${span(stopped)}`,
			missing && `${plural(missing, 'request')} missing`,
		];
		note(missing || (any && complete < 0.995) ? parts.filter(Boolean).join('; ') : '');
	},
};

async function load(signal) {
	if (!view.mounted && !(await mountScreen())) return false;
	const { mounted } = view;
	if (!mounted) return true;
	try {
		const questions = { changes: question('changes', { limit: 50 }), ...mounted.questions() };
		restore(Object.values(questions).join(' '));
		const health = mounted.needsNoStore ? 'health' : 'health?part=status';
		const { answers, asOf } = await ask({ health, ...questions }, signal);
		if (view.mounted === mounted) accept(answers, asOf);
	} catch (error) {
		if (signal.aborted) return true;
		shown.failure = error;
		if (view.mounted === mounted) report();
	}
	return view.mounted !== mounted || !shown.failure;
}

/**
 * Shows the last answers to these questions until new ones arrive. Without last answers, shows nothing while the store
 * is unreachable.
 */
function restore(questions) {
	const isAsked = view.place !== location.hash + rangeName(); // whether the user asks, and not the page itself
	view.place = location.hash + rangeName();
	if (view.questions === questions) return;
	view.questions = questions;
	if (!isAsked && view.answers) return;
	const known = lastAnswers.get(view.place) ?? lastAnswers.get(questions);
	if (!known && !shown.failure) return;
	Object.assign(view, { answers: null, ...known, complete: Boolean(known) });
	shown.at = known?.at ?? 0;
	report();
	draw();
}

/** Shows answers. If they cannot be drawn, the previous ones stay. */
function accept(answers, asOf) {
	const before = { ...view };
	const { at } = shown;
	try {
		take(answers, asOf);
		report();
		draw();
	} catch (error) {
		console.error(error);
		Object.assign(view, before);
		shown.at = at;
		draw();
		throw new UnexpectedAnswer(error.message);
	}
	if (shown.failure) return;
	// Answers are also stored by screen and range (`view.place`), in case the screen asks other questions next time.
	for (const key of [view.place, view.questions]) {
		lastAnswers.delete(key);
		lastAnswers.set(key, { answers: view.answers, asOf, at: shown.at });
		if (lastAnswers.size > MAX_ANSWERS) lastAnswers.delete(lastAnswers.keys().next().value);
	}
}

function take({ health, ...others }, asOf) {
	view.asOf = asOf;
	view.health = health?.body;
	if (setDays(view.health?.history?.days ?? 0)) controls();
	const away = Object.values(others).find(({ status }) => status >= 500);
	const [answers, refused] = [{}, {}];
	for (const [name, { status, body }] of Object.entries(others)) {
		if (status >= 400 && status < 500) refused[name] = visible(body?.error ?? '');
		// While the store is unreachable, a question keeps its last answer.
		const answer = status === 200 ? body : status >= 500 && view.answers?.[name];
		if (answer) answers[name] = answer;
	}
	Object.assign(view, { answers, refused });
	shown.failure = away ? new ApiError(away.status, away.body) : null;
	if (away) return;
	shown.at = serverNow();
	view.complete = true;
}

function draw() {
	if (!view.answers || !view.mounted || !(view.complete || view.mounted.needsNoStore)) return;
	keepOngoing(view.answers.changes?.changes ?? []);
	const { health, refused, asOf } = view;
	view.mounted.draw(view.answers, serverNow(), { asOf: asOf ?? serverNow(), health, refused });
	if (!document.body.dataset.ready) {
		performance.mark('drawn');
		setTimeout(loadRest); // after the first paint
	}
	document.body.dataset.ready = 'true';
	const refusal = Object.values(view.refused ?? {})[0];
	if (refusal) note(refusal);
}

const UNEXPECTED = 'The answer may be of another version, or a login page. If this lasts, reload.';
const STATUSES = {
	down: 'store unreachable',
	unreachable: 'service unreachable',
	unauthorized: 'not logged in',
	unexpected: 'unexpected answer',
};

/** Shows the state of the store, or why it is unknown. */
function setStatus(status) {
	text($('status'), STATUSES[status] ?? `store ${visible(status)}`);
	attr($('status'), 'data-status', status);
}

/** Shows the problems of the service in the header, in the title and in the icon: in red if any problem is red. */
function showProblems({ changes, hanging, problems: n, acknowledged, judged_until: until, coverage }) {
	const isBad = hanging?.length > 0 || changes.some((one) => one.is_ongoing && level(one) === 'bad');
	const isSeen = until > 0 && coverage?.compared > 0;
	show($('problems'), n > 0 || isSeen);
	const people = new Set(changes.flatMap(({ acknowledged: one }) => (one ? [visible(one.by)] : [])));
	const by = acknowledged < n ? `${acknowledged} acknowledged` : `acknowledged by ${[...people].join(' and ')}`;
	text($('problems'), (n > 0 ? plural(n, 'problem') : 'no problem') + (acknowledged > 0 ? `, ${by}` : ''));
	attr($('problems'), 'data-status', isBad ? 'down' : n > 0 ? 'degraded' : 'ok');
	attr($('problems'), 'href', link({ screen: 'overview' }));
	view.problems = n;
	const color = isBad ? '%23e5383b' : 'orange';
	const dot = n > 0 ? `%3Ccircle cx='25' cy='7' r='7' fill='${color}' stroke='%23fff' stroke-width='2'/%3E` : '';
	attr($('icon'), 'href', icon.replace('%3C/svg%3E', `${dot}%3C/svg%3E`));
}

function setTitle() {
	const isOfOne = ['path', 'instance'].includes(state.screen);
	const place = isOfOne ? shortened(visible(state.context || state.name)) : $('screens').textContent;
	const service = [config.service, config.version].filter(Boolean).map(visible).join(' ');
	const count = view.problems > 0 ? `(${view.problems}) ` : '';
	document.title = count + [place, service, 'tower-pulse'].filter(Boolean).join(' · ');
}

/** Shows the status, the banner, the warnings, and the age of the figures. */
function report() {
	const { failure } = shown;
	const { health } = view;
	const kind = failure && kindOf(failure);
	const isUnauthorized = kind === 'unauthorized';
	setStatus(kind === 'store' ? 'down' : (kind ?? health?.status ?? 'unknown'));
	show($('banner'), Boolean(failure));
	attr($('banner'), 'data-kind', kind);
	document.body.toggleAttribute('data-stale', Boolean(failure) && view.complete === true);
	document.body.toggleAttribute('data-nothing', Boolean(failure) && !view.complete && !view.mounted?.needsNoStore);
	if (failure) {
		const shownSince = `The figures are from ${time(shown.at)}.`;
		const stale = view.complete ? shownSince : 'Nothing to show yet.';
		const message = sentenceOf(failure);
		text($('banner').firstElementChild, isUnauthorized ? message : `${message} ${stale} Trying again…`);
		text($('banner').lastElementChild, isUnauthorized ? 'Reload' : 'Retry now');
		if (!view.complete && !view.mounted?.needsNoStore && !nothing.isConnected) root.prepend(nothing);
	}
	if (view.complete) nothing.remove();
	if (view.answers?.changes) showProblems(view.answers.changes);
	setTitle();
	if (health && kind !== 'unreachable') {
		const advice = Object.values(view.answers ?? {}).flatMap((answer) => answer.advice ?? []);
		const sentences = problems(health, failure, advice);
		sync($('warnings'), sentences, String, 'li', text);
		show($('warnings'), sentences.length > 0 && state.screen !== 'health');
	}
	tick();
}

function kindOf(failure) {
	if (failure instanceof UnexpectedAnswer) return 'unexpected';
	if (!(failure instanceof ApiError)) return 'unreachable';
	return LOGGED_OUT.includes(failure.status) ? 'unauthorized' : 'store';
}

/** The failure, and the remedy. */
function sentenceOf(failure) {
	const message = visible(failure.message);
	if (failure.status === 403) return `The service refuses to answer: ${message}. Reload the page once you may enter.`;
	if (failure.status === 401) return 'You are logged out. Reload the page to log in again.';
	if (failure instanceof SyntaxError) return 'The script of this screen is broken. Reload the page.';
	const sentences = { unexpected: UNEXPECTED, unreachable: 'The service cannot be reached.' };
	return sentences[kindOf(failure)] ?? message.replace(/[^.?!]$/, '$&.');
}

/** Shows the age of the figures. */
function tick() {
	const age = serverNow() - shown.at;
	const isOld = view.complete && !isPaused() && !isZoomed() && age > Math.max(STALE, 3 * state.refresh);
	let words = `updated ${age < 1.5 && !isPaused() ? 'now' : `${span(age)} ago`}`;
	if (isPaused()) words = `paused · ${words}`;
	if (isZoomed()) words = `paused for this range · as of ${time(view.asOf)}`;
	text($('updated'), view.complete ? words : '');
	$('updated').classList.toggle('warn-text', isOld);
}

/** Sets the controls to the state, and mounts another screen if the state names one. */
async function changed() {
	useUtc(state.utc === 1);
	usePerSecond(state.unit === 'second');
	const { name, context, range } = view;
	view.before = null;
	controls();
	poller.paused = isPaused() || isZoomed();
	view.range = `${rangeName()} ${state.from} ${state.to} ${state.against}`;
	if (name === state.screen && context === state.context + state.kind) {
		// Answers about another range must not be drawn for this one.
		if (view.range === range) draw();
		poller.now();
		return;
	}
	view.mounted?.remove?.();
	Object.assign(view, { name: state.screen, context: state.context + state.kind, complete: false, refused: {} });
	view.mounted = view.answers = view.questions = null;
	delete document.body.dataset.ready;
	document.body.dataset.screen = state.screen;
	note('');
	poller.now();
}

/** Loads what the first paint does not need, once. */
async function loadRest() {
	style();
	try {
		const { against } = await retried((retry) => import('./against.js' + retry));
		compare ??= against(page);
		compare(view.before, serverNow());
	} catch {} // tried again with the next screen
}

/** Loads the style of the screens other than the overview, once. */
function style() {
	styled ??= new Promise((onload) => {
		const onerror = () => onload((styled = null));
		const href = new URL('screens.css', import.meta.url);
		document.head.append(Object.assign(el('link'), { rel: 'stylesheet', href, onload, onerror }));
	});
	return styled;
}

/** Mounts the screen that the state names. `false` if its module cannot be loaded. */
async function mountScreen() {
	const { name, context } = view;
	try {
		// Screens other than the overview are loaded when they are opened.
		const file = name === 'timers' ? 'paths' : name;
		const load = (retry) => (name === 'overview' ? { mount } : import(`./screen_${file}.js${retry}`));
		const module = await retried(load);
		if (name !== 'overview') await style();
		if (view.name !== name || view.context !== context || view.mounted) return true;
		root.replaceChildren();
		forgetExports();
		view.mounted = module.mount(root, page);
		scrollTo(0, 0);
	} catch (error) {
		if (view.name !== name) return true;
		root.replaceChildren();
		// A `TypeError` is a failure of the network. Any other error is a defect of the page.
		if (!(error instanceof TypeError)) console.error(error);
		shown.failure = error;
		report();
		return false;
	}
	return true;
}

function controls() {
	// The tab that is current for a screen without a tab of its own.
	const partOf = { instance: 'health', path: state.kind === 'timer' ? 'timers' : 'paths' };
	if (state.context === '<queue>') partOf.path = 'overview';
	for (const node of all('nav a')) {
		const own = node.dataset.screen;
		attr(node, 'href', link({ screen: own }));
		const isCurrent = own === (partOf[state.screen] ?? state.screen);
		attr(node, 'aria-current', isCurrent ? 'page' : null);
		if (isCurrent) text($('screens'), node.textContent);
	}
	for (const radio of all('input[name=range]')) {
		radio.checked = !isZoomed() && radio.value === rangeName();
		show(radio.parentElement, isOffered(radio.value));
	}
	const focused = /** @type {HTMLElement} */ (document.activeElement);
	show($('unzoom'), isZoomed());
	show($('freeze'), !isZoomed());
	// The two buttons replace each other.
	if (focused?.hidden) (focused === $('freeze') ? $('unzoom') : $('freeze')).focus();
	compare?.(view.before, serverNow());
	const now = serverNow();
	text($('unzoom'), `${moment(state.from, now)} – ${moment(state.to, now)} ×`);
	attr($('unzoom'), 'aria-label', `Leave the range from ${time(state.from, 'full')} to ${time(state.to, 'full')}`);
	text($('pause'), isPaused() ? 'Resume' : 'Pause');
	attr($('pause'), 'aria-pressed', isPaused());
	$('precision').value = state.precision;
	for (const option of $('precision').options) option.disabled = option.value > 0 && !fitsRange(option.value);
	$('refresh').value = state.refresh;
	$('utc').checked = state.utc === 1;
	$('unit').value = state.unit;
}

const poller = new Poller(load, () => Math.max(state.refresh, 1) * 1000);

function connect() {
	text($('service'), config.service ?? 'tower-pulse');
	if (config.version) $('service').append(el('small', 'muted', ` ${config.version}`));
	$('logo').src = icon;
	$('screens').addEventListener('click', () => openScreens($('screens').ariaExpanded !== 'true'));
	$('export').addEventListener('toggle', async () => {
		if ($('export').open) (await import('./export.js')).list($('export').lastElementChild, offered);
	});
	for (const name of SCREENS) {
		const tab = el('a', '', name === 'deploy' ? 'Deploys' : name[0].toUpperCase() + name.slice(1));
		tab.dataset.screen = name;
		$('nav').append(tab);
	}
	for (const precision of config.precisions ?? []) $('precision').append(new Option(span(precision), precision));
	for (const value of Object.keys(RANGES)) {
		const radio = Object.assign(el('input'), { type: 'radio', name: 'range', value });
		radio.addEventListener('change', () => page.go({ range: value, from: 0, to: 0, offset: 0 }));
		$('ranges').append(el('label', '', radio, el('span', '', value.replace(/\D/, ' $&'))));
	}
	for (const n of REFRESH) $('refresh').append(new Option(`every ${span(n)}`, String(n)));
	$('settings').lastElementChild.append(button('Keys ( ? )', openKeys, 'button'));
	$('unzoom').addEventListener('click', () => page.go({ from: 0, to: 0 }));
	$('freeze').addEventListener('click', () => {
		// Requests that are not included yet would still change the figures.
		const to = settled(Math.min(serverNow(), view.asOf ?? Infinity));
		page.go({ from: to - seconds(), to });
	});
	$('precision').addEventListener('change', (event) => page.go({ precision: Number(event.target.value) }));
	$('refresh').addEventListener('change', (event) => page.go({ refresh: Number(event.target.value) }, true));
	$('unit').addEventListener('change', (event) => page.go({ unit: event.target.value }, true));
	$('utc').addEventListener('change', (event) => page.go({ utc: event.target.checked ? 1 : 0 }, true));
	$('pause').addEventListener('click', () => {
		write({ paused: isPaused() ? 0 : 1 }, true);
		poller.paused = isPaused() || isZoomed();
		controls();
		tick();
	});
	$('banner').lastElementChild.addEventListener('click', () =>
		LOGGED_OUT.includes(shown.failure?.status) ? location.reload() : poller.now(),
	);
	document.querySelector('.skip').addEventListener('click', (event) => {
		event.preventDefault();
		root.focus();
	});
	document.addEventListener('click', (event) => closeMenus(event.target));
	document.addEventListener('keydown', keys);
	addEventListener('popstate', () => {
		closeMenus();
		read();
		changed();
	});
	setInterval(() => document.hidden || tick(), 1000);
}

/** Opens or closes the navigation, which is a menu on a phone. */
const openScreens = (isOpen) => attr($('screens'), 'aria-expanded', isOpen);

/** Closes the menus that do not contain `target`. */
function closeMenus(target) {
	for (const menu of all('details.menu[open]')) menu.open = Boolean(target) && menu.contains(target);
	if (target !== $('screens')) openScreens(false);
}

function keys(event) {
	const isHeld = event.ctrlKey || event.metaKey;
	if (event.defaultPrevented || event.altKey || all('dialog').length) return;
	const [menu] = all('details.menu[open]');
	const isTyping = /^(input|select|textarea)$/i.test(event.target.tagName) && event.target.type !== 'radio';
	if (isHeld ? event.key === 'k' : event.key === '/' && !isTyping) {
		event.preventDefault();
		if ($('filter')) return $('filter').focus();
		page.focusFilter = true;
		page.go({ screen: 'paths' });
	} else if (isHeld) return;
	else if (event.key === 'Escape' && $('screens').ariaExpanded === 'true') {
		openScreens(false);
		$('screens').focus();
	} else if (event.key === 'Escape' && menu) {
		menu.open = false;
		menu.firstElementChild.focus();
	} else if (event.key === 'Escape' && isZoomed() && !isTyping) page.go({ from: 0, to: 0 });
	else if (event.key === '?' && !isTyping) openKeys();
}

async function openKeys() {
	const { showKeys } = await retried((retry) => import('./keys.js' + retry));
	showKeys();
}

connect();
changed();
