// The status badge, the banner of problems, and whatever figures health has.

import { $, attr, el, show, sync, text } from './dom.js';
import { NONE, bytes, duration, grouped, time, visible } from './format.js';

const LOSSES = {
	'recording.dropped': 'measurements dropped',
	'fold.quarantined': 'values quarantined: the store refused them',
	'fold.skewed': 'measurements skewed: the clocks disagree',
};

export function drawStatus(status) {
	const known = ['ok', 'degraded', 'down', 'unreachable'].includes(status);
	text($('status'), visible(status));
	attr($('status'), 'data-status', known ? status : 'unknown');
}

export function drawHealth(health) {
	drawStatus(health.status ?? 'unknown');
	const found = problems(health);
	const banner = $('problems');
	show(banner, found.length > 0);
	banner.classList.toggle('bad', health.status === 'down');
	sync(banner, found, String, (problem) => el('p', '', problem), () => {});
	const facts = flatten(health).filter(([key]) => key !== 'status' && key !== 'warnings');
	sync($('health-list'), facts, ([key]) => key, ([key]) => el('div', '', el('dt', '', label(key)), el('dd')), (row, [key, value]) => {
		text(row.lastChild, figure(key, value));
		row.lastChild.classList.toggle('warn-text', value > 0 && /dropped|lost|quarantined|skewed|errors|overflowed|late$|resets/.test(key));
	});
	text($('health-summary'), found.length ? `${found.length} ${found.length === 1 ? 'problem' : 'problems'}` : 'nothing to report');
}

function problems(health) {
	const list = [];
	const { status } = health;
	if (status === 'down') list.push('The store is down: measurements wait in this process until it is back.');
	else if (status && status !== 'ok') list.push(`The status is ${visible(status)}.`);
	for (const [key, value] of flatten(health)) {
		const loss = LOSSES[key];
		const n = Array.isArray(value) ? value.length : value;
		if (loss && n > 0) list.push(`${grouped(n)} ${loss}.`);
	}
	for (const warning of [health.warnings ?? []].flat()) list.push(visible(warning));
	return [...new Set(list)];
}

/** Objects become dotted keys, lists become lines. */
function flatten(object, prefix = '') {
	return Object.entries(object).flatMap(([key, value]) => (
		value && typeof value === 'object' && !Array.isArray(value) ? flatten(value, `${prefix}${key}.`) : [[prefix + key, value]]
	));
}

function label(key) {
	const words = visible(key).replace(/_(seconds|secs|bytes|unix)$/, '').replace(/[_.]+/g, ' ');
	return words.charAt(0).toUpperCase() + words.slice(1);
}

function figure(key, value) {
	if (value === null || value === undefined || value === '') return NONE;
	if (typeof value === 'boolean') return value ? 'yes' : 'no';
	if (Array.isArray(value)) return value.length ? value.map((v) => visible(typeof v === 'object' ? JSON.stringify(v) : v)).join('\n') : 'none';
	if (typeof value !== 'number') return visible(value);
	if (/bytes/.test(key)) return bytes(value);
	if (/completeness|ratio$|fraction$/.test(key) && value <= 1) return `${Number((value * 100).toFixed(3))}%`;
	if (value > 1e9 && value < 1e10 && /(_at|time|unix|start|since|last_)/.test(key)) return time(value, 'full');
	if (/seconds|_secs|(^|[_.])(age|lag|lateness|uptime|interval)([_.]|$)/.test(key)) return duration(value);
	return grouped(value);
}
