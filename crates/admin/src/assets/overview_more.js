// The rare parts of the overview: instructions while nothing is recorded, advice, and missed targets.

import { adviceCards } from './advice.js';
import { burningList } from './burning.js';
import { emptyState } from './empty.js';

/**
 * Adds the parts to the overview.
 * @param {HTMLElement} root
 * @param {HTMLElement} attention
 * @param {HTMLElement} tiles
 * @returns {(overview: any, week: any, now: number) => void} draws an answer; `week`: the paths of a week, while the
 * range has no requests
 */
export function moreOfOverview(root, attention, tiles) {
	const advise = adviceCards(tiles);
	const burning = burningList(attention);
	const empty = emptyState(root);
	return ({ advice, burning: burnt = [] }, week, now) => {
		advise(advice ? [advice] : []);
		burning.draw(burnt);
		empty.draw(week, now);
	};
}
