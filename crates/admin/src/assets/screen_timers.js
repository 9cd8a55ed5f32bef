// All timers of a range.

import { contexts } from './screen_paths.js';

export const mount = contexts('timer');
