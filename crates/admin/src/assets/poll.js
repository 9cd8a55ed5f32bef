// Loads again and again while somebody looks. A load never overlaps itself: a new one aborts the one before.

const LONGEST_RETRY = 5_000; // milliseconds: somebody may wait for the store to come back

export class Poller {
	#load;
	#every;
	#timer = 0;
	#running = null;
	#failures = 0; // since the last success
	#paused = false;

	/** `load(signal)` resolves to whether it succeeded; `every()` is the time between two loads, in milliseconds. */
	constructor(load, every) {
		this.#load = load;
		this.#every = every;
		document.addEventListener('visibilitychange', () =>
			document.hidden ? clearTimeout(this.#timer) : this.#isIdle || this.now(),
		);
	}

	/** Nothing is to be loaded by itself. What has failed is tried again, paused or not. */
	get #isIdle() {
		return this.#paused && this.#failures === 0;
	}

	/** While paused, only `now` loads. */
	set paused(value) {
		const resumed = this.#paused && !value;
		this.#paused = value;
		if (this.#isIdle) clearTimeout(this.#timer);
		else if (resumed) this.now();
	}

	/** Loads now, paused or not. */
	async now() {
		clearTimeout(this.#timer);
		this.#running?.abort();
		const controller = new AbortController();
		this.#running = controller;
		// What throws is a defect of the page, which is no reason to stop.
		const succeeded = await this.#load(controller.signal).catch(console.error);
		if (this.#running !== controller) return;
		this.#running = null;
		this.#failures = succeeded ? 0 : this.#failures + 1;
		if (this.#isIdle || document.hidden) return;
		const every = this.#every();
		const wait = this.#failures ? Math.min(every * 2 ** (this.#failures - 1), LONGEST_RETRY) : every;
		this.#timer = setTimeout(() => this.now(), wait);
	}
}
