// Fetches the sources every two seconds. A source never overlaps itself: a new request aborts the older one.

const EVERY = 2000;
const SLOWEST = 30_000;

/** `sources`: name -> async (signal). `report(errors, complete)` is called after each round and each refresh. */
export class Poller {
	#sources;
	#report;
	#running = new Map();
	#timer = 0;
	#inRound = false;
	#failures = 0;
	#paused = false;

	constructor(sources, report) {
		this.#sources = sources;
		this.#report = report;
		document.addEventListener('visibilitychange', () => (document.hidden ? clearTimeout(this.#timer) : this.#wake()));
	}

	get paused() {
		return this.#paused;
	}

	set paused(value) {
		this.#paused = value;
		if (value) clearTimeout(this.#timer);
		else this.#wake();
	}

	/** Starts a whole round now, paused or not. */
	async round() {
		if (this.#inRound) return;
		clearTimeout(this.#timer);
		this.#inRound = true;
		const names = Object.keys(this.#sources).filter((name) => !this.#running.has(name));
		const errors = (await Promise.all(names.map((name) => this.#load(name)))).filter(Boolean);
		this.#inRound = false;
		this.#failures = errors.length ? this.#failures + 1 : 0;
		this.#report(errors, true);
		if (errors.some((error) => error.status === 401)) this.#paused = true;
		this.#schedule(Math.min(EVERY * 2 ** Math.max(this.#failures - 1, 0), SLOWEST));
	}

	/** Fetches these sources now, because the user changed what is shown. */
	async refresh(...names) {
		const errors = (await Promise.all(names.map((name) => this.#load(name)))).filter(Boolean);
		if (errors.length) this.#report(errors, false);
	}

	#wake() {
		if (!this.#paused) this.round();
	}

	#schedule(delay) {
		clearTimeout(this.#timer);
		if (!this.#paused && !document.hidden) this.#timer = setTimeout(() => this.round(), delay);
	}

	async #load(name) {
		this.#running.get(name)?.abort();
		const controller = new AbortController();
		this.#running.set(name, controller);
		try {
			await this.#sources[name](controller.signal);
		} catch (error) {
			if (!controller.signal.aborted) return error;
		} finally {
			if (this.#running.get(name) === controller) this.#running.delete(name);
		}
		return null;
	}
}
