// Helpers that write only differences, so that focus and selection stay.

const SVG = 'http://www.w3.org/2000/svg';

export const $ = (id) => document.getElementById(id);

export function el(tag, className, ...children) {
	const node = document.createElement(tag);
	if (className) node.className = className;
	node.append(...children);
	return node;
}

export function svg(tag, attributes = {}, ...children) {
	const node = document.createElementNS(SVG, tag);
	for (const name in attributes) node.setAttribute(name, attributes[name]);
	node.append(...children);
	return node;
}

export function text(node, value) {
	const string = String(value);
	if (node.textContent !== string) node.textContent = string;
}

export function attr(node, name, value) {
	if (value === null || value === undefined) node.removeAttribute(name);
	else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

export function show(node, visible) {
	if (node.hidden === visible) node.hidden = !visible;
}

/** A horizontal bar; `fill(node, part)` sets its length, 0 to 1. */
export function meter() {
	const node = el('span', 'meter', el('span', 'fill'));
	node.setAttribute('aria-hidden', 'true');
	return node;
}

export function fill(node, part) {
	const share = Number.isFinite(part) ? Math.min(Math.max(part, 0), 1) : 0;
	const width = `${(share * 100).toFixed(1)}%`;
	if (node.firstChild.style.width !== width) node.firstChild.style.width = width;
}

/** Makes the children of `parent` match `items`. A node stays with its key. */
export function sync(parent, items, key, create, update) {
	const old = parent.nodesByKey ?? new Map();
	const now = new Map();
	const focused = document.activeElement;
	items.forEach((item, index) => {
		let id = key(item, index);
		while (now.has(id)) id += '\u0000';
		const node = old.get(id) ?? create(item);
		now.set(id, node);
		old.delete(id);
		update(node, item, index);
	});
	for (const node of old.values()) node.remove();
	let place = parent.firstChild;
	for (const node of now.values()) {
		if (node === place) place = place.nextSibling;
		else parent.insertBefore(node, place);
	}
	parent.nodesByKey = now;
	if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}
