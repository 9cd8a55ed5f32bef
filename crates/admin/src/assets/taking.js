// The person who works on a change, and the button that acknowledges the change or withdraws the acknowledgement.

import { headline, takenBy } from './change.js';
import { attr, button, el, labelled, show, text } from './dom.js';
import { send } from './send.js';

/** A line with the person who has acknowledged a change. `draw(change, now)` shows it. */
export function taker(page) {
	const who = el('span', 'who');
	let change = null;
	let isSending = false;
	let failure = ''; // why the last press did nothing
	let since = 0; // when it was drawn last, by the server's clock

	const redraw = () => {
		text(who, failure || takenBy(change, since));
		who.classList.toggle('bad-text', failure !== '');
		// The elapsed time alone is not announced to screen readers.
		attr(who, 'role', failure ? 'alert' : null);
		text(take, change.taken ? 'Give back' : 'Take');
		labelled(take, `${take.shownText}: ${headline(change)}`);
		take.title = change.taken
			? 'Call for attention again'
			: 'Show others that you work on this, and stop counting it';
		take.disabled = isSending;
		// An ended change needs no action.
		show(take, change.stands && page.config.may_write === true);
	};
	const take = button('', async () => {
		isSending = true;
		redraw();
		try {
			const { taken } = await send('POST', 'changes', { id: change.id, taken: !change.taken });
			change = { ...change, taken };
			failure = '';
			page.ask();
		} catch (error) {
			failure = `Not done: ${error.message}`;
		}
		isSending = false;
		redraw();
	});
	return {
		node: el('span', 'taking', who, take),
		draw(shown, now) {
			// While the press is sent, an answer may still have the state before it.
			if (isSending) return;
			[change, since] = [shown, now];
			redraw();
		},
	};
}
