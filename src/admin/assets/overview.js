// The tiles: the values of this hour, each with that of the last hour below it.

import { $, attr, el, text } from './dom.js';
import { NONE, count, duration, grouped, percent, rate, time } from './format.js';

const TIMES = ['mean', 'p50', 'p95', 'p99'];
const places = new Map([...document.querySelectorAll('[data-v]')].map((node) => [node.dataset.v, node]));
for (const name of TIMES) {
	const [figure, before] = [el('dd', 'figure', NONE), el('dd', 'muted')];
	places.set(name, figure).set(`${name}-before`, before);
	$('times').append(el('div', '', el('dt', 'muted', name === 'mean' ? 'Mean time' : name), figure, before));
}

function put(name, value, title = null) {
	text(places.get(name), value);
	attr(places.get(name), 'title', title);
}

export function drawOverview({ hour, last_hour: last, in_flight: inFlight, requests_per_second: perSecond, contexts, instances }) {
	const before = (value) => (last && value !== NONE ? `last hour ${value}` : '');
	put('requests', count(hour?.requests), grouped(hour?.requests));
	put('requests-before', before(count(last?.requests)) || (hour?.start ? `since ${time(hour.start, 'minute')}` : ''), hour?.start ? `Since ${time(hour.start, 'minute')}` : null);
	put('rate', rate(perSecond));
	put('rate-before', last ? before(rate(last.requests / 3600)) : 'over 10 seconds');
	for (const name of TIMES) {
		put(name, duration(hour?.[name]));
		put(`${name}-before`, before(duration(last?.[name])));
	}
	put('errors', count(hour?.errors), grouped(hour?.errors));
	attr(places.get('errors'), 'class', hour?.errors > 0 ? 'bad-text' : null);
	put('error-rate', hour?.errors > 0 ? percent(hour.errors, hour.requests) : '');
	put('errors-before', last ? before(`${count(last.errors)}${last.errors > 0 ? ` (${percent(last.errors, last.requests)})` : ''}`) : '');
	put('in-flight', grouped(inFlight));
	put('instances', grouped(instances));
	put('contexts', grouped(contexts));
}
