//! Generates mistakes in the keys of a valid file: misspelt keys, and keys one level too high or too low.

use serde_json::{Map, Value};

/// Returns the JSON pointers of all members and items.
pub(crate) fn all_pointers(value: &Value) -> Vec<String> {
    fn collect(value: &Value, path: &str, found: &mut Vec<String>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
            Value::Array(items) => {
                items.iter().enumerate().map(|(place, value)| (place.to_string(), value)).collect()
            }
            _ => Vec::new(),
        };
        for (key, value) in children {
            let below = format!("{path}/{key}");
            found.push(below.clone());
            collect(value, &below, found);
        }
    }
    let mut found = Vec::new();
    collect(value, "", &mut found);
    found
}

/// Splits a pointer into the pointer of its map and its key.
pub(crate) fn split_pointer(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap()
}

/// Returns misspellings of a key: one letter dropped, doubled or swapped with the next one.
fn misspellings(key: &str) -> Vec<String> {
    let letters: Vec<char> = key.chars().collect();
    let mut found = Vec::new();
    for place in 0..letters.len() {
        let mut dropped = letters.clone();
        dropped.remove(place);
        let mut doubled = letters.clone();
        doubled.insert(place, letters[place]);
        let mut swapped = letters.clone();
        swapped.swap(place, (place + 1).min(letters.len() - 1));
        found.extend([dropped, doubled, swapped]);
    }
    let written = found.into_iter().map(String::from_iter);
    written.filter(|slip: &String| slip != key && !slip.is_empty()).collect()
}

/// Returns the files in which one key is misspelt, each with a description of the mistake.
pub(crate) fn misspell_key(good: &Value, path: &str) -> Vec<(String, Value)> {
    let (above, key) = split_pointer(path);
    let mut found = Vec::new();
    if !good.pointer(above).unwrap().is_object() {
        return found;
    }
    for slip in misspellings(key) {
        let mut file = good.clone();
        let map = object(&mut file, above);
        let value = map.remove(key).unwrap();
        if map.insert(slip.clone(), value).is_none() {
            found.push((format!("{path} as {slip}"), file));
        }
    }
    found
}

/// Returns the files in which one key moves one level up (after the map that contained it) or one level down
/// (into a neighbouring map). No key moves into maps named in `free`, because their keys are user-defined.
pub(crate) fn move_key(good: &Value, path: &str, free: &[&str]) -> Vec<(String, Value)> {
    let (above, key) = split_pointer(path);
    let mut found = Vec::new();
    let Some(siblings) = good.pointer(above).and_then(Value::as_object) else { return found };
    if let Some((top, map)) = above.rsplit_once('/')
        && good.pointer(top).unwrap().is_object()
    {
        let mut file = good.clone();
        let value = object(&mut file, above).remove(key).unwrap();
        let outer = object(&mut file, top);
        if !outer.contains_key(key) {
            let mut entries = Map::new();
            for (name, entry) in std::mem::take(outer) {
                let check_is_map = name == map;
                entries.insert(name, entry);
                if check_is_map {
                    entries.insert(key.to_owned(), value.clone());
                }
            }
            *outer = entries;
            found.push((format!("{path} one level up"), file));
        }
    }
    let maps = siblings.iter().filter(|(name, value)| {
        value.as_object().is_some_and(|map| !map.contains_key(key))
            && *name != key
            && !free.contains(&name.as_str())
    });
    for (name, _) in maps {
        let mut file = good.clone();
        let value = object(&mut file, above).remove(key).unwrap();
        object(&mut file, &format!("{above}/{name}")).insert(key.to_owned(), value);
        found.push((format!("{path} in {name}"), file));
    }
    found
}

fn object<'a>(file: &'a mut Value, path: &str) -> &'a mut Map<String, Value> {
    file.pointer_mut(path).unwrap().as_object_mut().unwrap()
}
