// The button that acknowledges a change or withdraws the acknowledgement, and the person who has acknowledged.

import { send } from './api.js';
import { acknowledgedBy, headline } from './change.js';
import { attr, el, labelled, show, text } from './dom.js';
import { config } from './state.js';

const STORED_NAME = 'tower-pulse-name';
let name = '';

/** The name under which this browser acknowledges changes if `Access` gives none. `given` replaces the name. */
function ownName(given = null) {
	name = given?.trim() ?? name;
	try {
		if (given !== null) localStorage.setItem(STORED_NAME, name);
		name = localStorage.getItem(STORED_NAME) ?? name;
	} catch {
		// A browser that stores nothing forgets the name when the page is left.
	}
	return name;
}

/** The person who has acknowledged a change, and the button. `draw(change, now)` shows both. */
export function acknowledgement(page) {
	const who = el('span', 'who');
	const field = labelled(el('input'), 'Your name');
	Object.assign(field, { type: 'text', maxLength: 64, placeholder: 'Your name', autocomplete: 'name' });
	const press = el('button', 'button');
	const node = el('form', 'acknowledgement', who, field, press);
	let change = null;
	let isAsked = false; // whether the field for the name is shown
	let isSending = false;
	let failure = ''; // why the last press did nothing
	let drawn = 0; // the server's time at the last drawing

	const redraw = () => {
		text(who, failure || acknowledgedBy(change, drawn));
		who.classList.toggle('bad-text', failure !== '');
		// Screen readers announce a failure, but not the elapsed time.
		attr(who, 'role', failure ? 'alert' : null);
		text(press, change.acknowledged ? 'Withdraw' : 'Acknowledge');
		press.classList.toggle('main', !change.acknowledged);
		labelled(press, `${press.shownText}: ${headline(change)}`);
		press.title = change.acknowledged
			? 'Ask for attention again'
			: 'Show everyone that you work on this. The problem stays listed.';
		press.disabled = isSending;
		show(field, isAsked && !change.acknowledged);
		field.required = !field.hidden;
		// An ended change needs no action.
		show(press, change.is_ongoing && config.may_write === true);
	};
	node.addEventListener('submit', async (event) => {
		event.preventDefault();
		const acknowledged = !change.acknowledged;
		const asks = acknowledged && config.asks_name === true;
		if (isAsked) ownName(field.value);
		isAsked = asks && !ownName();
		if (isAsked) {
			redraw();
			return field.focus();
		}
		isSending = true;
		redraw();
		try {
			const by = asks ? { by: ownName() } : {};
			const answer = await send('POST', 'changes', { id: change.id, acknowledged, ...by });
			if (change.acknowledged?.by === ownName()) {
				// The person may have withdrawn to correct the name, so the field asks for it again.
				field.value = ownName();
				ownName('');
			}
			change = { ...change, acknowledged: answer.acknowledged };
			failure = '';
			page.ask();
		} catch (error) {
			failure = `Not done: ${error.message}`;
		}
		isSending = false;
		redraw();
	});
	return Object.assign(node, {
		draw(shown, now) {
			// While an acknowledgement is sent, an answer may still have the earlier state.
			if (isSending) return;
			[change, drawn] = [shown, now];
			redraw();
		},
	});
}
